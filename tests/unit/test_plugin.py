from pathlib import Path

import pytest

from anabranch import NotFound
from anabranch.engine.plugin import load_plugins

GOOD = '''
from anabranch import Job, register_handler, register_job

@register_job
class Good(Job):
    """Fine."""
    job_type = "good"
    stages = [{"number": 1, "task_type": "good.act", "queue": "light"}]

@register_handler("good.act")
def act(params):
    return None
'''
BAD_STAGES = GOOD.replace('"good"', '"bad"').replace('"number": 1', '"number": 0').replace("good.act", "bad.act")
NO_HANDLER = GOOD.replace('"good"', '"lost"').replace('"task_type": "good.act"', '"task_type": "lost.act"')


def write(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return str(folder)


def test_g5_one_bad_plugin_does_not_stop_the_others(tmp_path: Path) -> None:
    folder = write(tmp_path, a_bad=BAD_STAGES, b_lost=NO_HANDLER, c_good=GOOD)
    registry = load_plugins(["no.such.module", "/no/such/folder", folder])
    assert {"good", "hello_world"} <= set(registry.declarations)
    assert set(registry.refused) == {"no.such.module", "/no/such/folder", "anabranch_plugin_a_bad.Good", "lost"}


def test_a_module_that_raises_is_refused_with_its_error(tmp_path: Path) -> None:
    registry = load_plugins([write(tmp_path, broken="1 / 0", good=GOOD)])
    assert registry.refused == {f"{tmp_path}/broken.py": "ZeroDivisionError: division by zero"}
    assert "good" in registry.declarations


def test_a_later_plugin_takes_the_place_of_an_earlier(tmp_path: Path) -> None:
    folder = write(tmp_path, mine=GOOD.replace('"good"', '"hello_world"'))
    assert load_plugins([folder]).declaration("hello_world").workflow.description == "Fine."


def test_workers_serve_every_queue_that_a_workflow_names(tmp_path: Path) -> None:
    assert {"light", "default", "plan:good"} <= set(load_plugins([write(tmp_path, good=GOOD)]).queues)


def test_an_unknown_workflow_is_named_with_those_that_are_known() -> None:
    with pytest.raises(NotFound) as error:
        load_plugins().declaration("nope")
    assert "'nope'" in error.value.message
    assert "hello_world" in error.value.remedy


def test_g5_a_file_with_the_id_of_another_beside_it_is_refused(tmp_path: Path) -> None:
    for name, said in (("a", "first"), ("b", "second")):
        (tmp_path / f"{name}.yaml").write_text(
            f"workflow_id: twice\nnodes: {{x: {{handler: echo, params: {{s: {said}}}}}}}\n"
        )
    registry = load_plugins([str(tmp_path)])
    assert registry.declaration("twice").workflow.node("x").params == {"s": "first"}
    assert registry.refused[str(tmp_path / "b.yaml")].endswith("the workflow_id 'twice' is that of a.yaml, too")


def test_g5_a_plugin_that_exits_is_refused_alone(tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    registry = load_plugins([str(tmp_path)])
    assert registry.refused[str(tmp_path / "exits.py")] == "SystemExit: 0"
    assert "hello_world" in registry.declarations
