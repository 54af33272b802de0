import sys
from pathlib import Path

import pytest

from anabranch import NotFound
from anabranch.engine.registry import Registry, load_plugins
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import Kind
from anabranch.workflows.stages import Declaration
from tests.support.nodes import make_node

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
    assert set(registry.refused) == {"no.such.module", "/no/such/folder", f"{tmp_path}/a_bad.py:Good", "lost"}


def test_a_folder_named_like_a_module_is_named_with_its_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_plugins(["mine"]).refused == {"mine": "there is no module 'mine', but a folder: write './mine'"}


def test_a_module_that_raises_is_refused_with_its_error(tmp_path: Path) -> None:
    registry = load_plugins([write(tmp_path, broken="1 / 0", good=GOOD)])
    assert registry.refused == {f"{tmp_path}/broken.py": "ZeroDivisionError: division by zero (broken.py, line 1)"}
    assert "good" in registry.declarations


def test_tests_beside_a_plugin_are_not_loaded(tmp_path: Path) -> None:
    registry = load_plugins([write(tmp_path, good=GOOD, test_good="1 / 0", good_test="1 / 0", conftest="1 / 0")])
    assert (registry.refused, "good" in registry.declarations) == ({}, True)


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


def test_g5_an_unknown_workflow_names_the_file_that_may_have_it(tmp_path: Path) -> None:
    registry = load_plugins([write(tmp_path, broken="def broken(:\n", good=GOOD)])
    with pytest.raises(NotFound, match=r"no workflow 'nope'; .*/broken.py was refused: SyntaxError: .*line 1\)"):
        registry.declaration("nope")


@pytest.mark.parametrize(
    "use",
    ["from stats import mean", "import stats\nmean = stats.mean", "from .stats import mean", "from . import stats"],
)
def test_files_of_a_plugin_folder_import_each_other(tmp_path: Path, use: str) -> None:
    write(tmp_path, stats="from sums import total\ndef mean(values): return total(values) / len(values)", good=GOOD)
    folder = write(tmp_path, sums="total = sum", uses=f"{use}\nfrom good import act")
    registry = load_plugins([folder])
    assert registry.refused == {}
    assert registry.handlers["good.act"].function.__globals__["__file__"] == f"{tmp_path}/good.py"


def test_a_file_of_a_plugin_folder_imports_when_it_is_called(tmp_path: Path) -> None:
    text = GOOD.replace("return None", "import stats.more; return stats.more.NAME")
    (tmp_path / "stats").mkdir()
    write(tmp_path / "stats", __init__="", more="NAME = 'own'")
    registry = load_plugins([write(tmp_path, good=text)])
    assert registry.handlers["good.act"].function(None) == "own"


def test_plugin_folders_with_equal_names_do_not_meet(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    before = [*sys.path], {name for name in sys.modules if "stats" in name}
    for folder in folders:
        folder.mkdir()
        act = GOOD.replace("good", f"good_{folder.name}").replace("return None", "return NAME")
        write(folder, stats=f"NAME = {folder.name!r}", use=f"from stats import NAME\n{act}")
    registry = load_plugins(map(str, folders))
    assert [registry.handlers[f"good_{name}.act"].function(None) for name in "ab"] == ["a", "b"]
    assert (sys.path, "stats" in sys.modules) == (before[0], "stats" in before[1])


def test_a_file_with_the_name_of_an_installed_package_may_import_it(tmp_path: Path) -> None:
    assert load_plugins([write(tmp_path, json="import json\njson.dumps")]).refused == {}


def test_g5_a_file_with_the_id_of_another_beside_it_is_refused(tmp_path: Path) -> None:
    for name, said in (("a", "first"), ("b", "second")):
        (tmp_path / f"{name}.yaml").write_text(
            f"workflow_id: twice\nnodes: {{x: {{handler: echo, params: {{s: {said}}}}}}}\n"
        )
    registry = load_plugins([str(tmp_path)])
    work = registry.declaration("twice").workflow.node("x").work
    assert work is not None
    assert work.params == {"s": "first"}
    assert registry.refused[str(tmp_path / "b.yaml")] == "the workflow_id 'twice' is that of a.yaml, too"


def test_g5_a_plugin_that_exits_is_refused_alone(tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    registry = load_plugins([str(tmp_path)])
    assert registry.refused[str(tmp_path / "exits.py")] == "SystemExit: 0 (exits.py, line 2)"
    assert "hello_world" in registry.declarations


CHILD = "workflow_id: child\ninputs: {n: {type: integer, required: true}}\nnodes: {a: {handler: echo}}\n"
PARENT = "workflow_id: parent\nnodes:\n  a: {type: workflow, workflow: child, params: {n: 1}}\n"
ABOVE = "workflow_id: above\nnodes:\n  a: {type: workflow, workflow: parent}\n"
ALONE = "workflow_id: alone\nnodes:\n  a: {handler: echo}\n"


def write_yaml(folder: Path, **files: str) -> Registry:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return load_plugins([str(folder)])


def test_e16_workflows_are_pinned_to_those_they_run_in_whatever_order_they_are_read(tmp_path: Path) -> None:
    registry = write_yaml(tmp_path, a_above=ABOVE, b_parent=PARENT, c_child=CHILD)
    above, parent, child = (registry.declaration(name) for name in ("above", "parent", "child"))
    assert above.workflow.parts == {parent.workflow.hash}
    assert [part.id for part in above.parts] == ["parent", "child"]
    changed = write_yaml(tmp_path, c_child=CHILD.replace("echo", "sleep"))
    assert changed.declaration("above").workflow.hash != above.workflow.hash
    assert child.parts == ()


def test_g5_a_bad_child_refuses_its_parents_and_nobody_else(tmp_path: Path) -> None:
    registry = write_yaml(tmp_path, above=ABOVE, parent=PARENT, child=CHILD.replace("handler", "handlr"), alone=ALONE)
    refused = {Path(name).name: reason for name, reason in registry.refused.items()}
    assert set(refused) == {"child.yaml", "parent.yaml", "above.yaml"}
    assert refused["parent.yaml"] == (
        f"{tmp_path}/parent.yaml:3:33: the workflow 'child' was refused. Fix child.yaml first."
    )
    assert refused["above.yaml"].endswith("the workflow 'parent' was refused. Fix parent.yaml first.")
    assert "alone" in registry.declarations
    with pytest.raises(NotFound, match=r"'above' was refused: .*above.yaml:3:33"):
        registry.declaration("above")


def test_g5_a_ring_refuses_each_of_its_workflows_with_the_way_around(tmp_path: Path) -> None:
    ring = CHILD.replace("handler: echo", "type: workflow, workflow: above")
    registry = write_yaml(tmp_path, above=ABOVE, parent=PARENT, child=ring, alone=ALONE)
    ways = [reason.split("would: ")[1].split(".")[0] for reason in registry.refused.values()]
    assert sorted(ways) == [
        "above → parent → child → above",
        "child → above → parent → child",
        "parent → child → above → parent",
    ]
    assert "alone" in registry.declarations


def test_a_child_of_a_thousand_generations_is_refused_and_nothing_breaks() -> None:
    def declare(number: int) -> Declaration:
        nodes = (
            (make_node("a", kind=Kind.WORKFLOW, workflow=f"w{number + 1}", params={}),)
            if number < 999
            else (make_node("a"),)
        )
        return Declaration(Workflow(f"w{number}", nodes))

    nested = nest({f"w{number}": declare(number) for number in range(1000)})
    assert list(nested.declarations) == [f"w{number}" for number in range(992, 1000)]
    assert "at most 8 deep" in nested.refused["w991"][0].message


def test_a_job_of_python_stages_can_be_run_and_its_parameters_are_checked(tmp_path: Path) -> None:
    text = "workflow_id: runs\nnodes:\n  a: {type: workflow, workflow: hello_world, params: {n: many, size: 2}}\n"
    registry = write_yaml(tmp_path, runs=text)
    (reason,) = registry.refused.values()
    assert [line.split(": ", 1)[1] for line in reason.splitlines()] == [
        "the input 'n' of hello_world must be an integer, not a string.",
        "hello_world takes no input 'size'. It takes n, message.",
    ]


def test_g5_a_reload_keeps_what_a_broken_child_would_take_away(tmp_path: Path) -> None:
    registry = write_yaml(tmp_path, parent=PARENT, child=CHILD)
    (tmp_path / "child.yaml").write_text(CHILD.replace("integer", "string"))
    fresh = registry.reread()
    assert fresh.kept == {"parent"}
    assert fresh.declaration("parent").workflow.hash == registry.declaration("parent").workflow.hash


def test_a_package_may_name_the_submodules_that_workers_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "chosen_plugin"
    package.mkdir()
    (package / "__init__.py").write_text('PLUGIN_MODULES = ("good",)\n')
    write(package, good=GOOD.replace('"good"', '"chosen"').replace("good.act", "chosen.act"), heavy="1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    registry = load_plugins(["chosen_plugin"])
    assert "chosen" in registry.declarations
    assert registry.refused == {}


def test_a_plugin_folder_has_a_folder_of_workflows(tmp_path: Path) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "only.yaml").write_text("workflow_id: only\nnodes: {one: {handler: echo}}\n")
    registry = load_plugins([str(tmp_path)])
    assert (registry.refused, registry.declaration("only").workflow.id) == ({}, "only")
