from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from structlog.testing import capture_logs

from anabranch import handler
from anabranch.engine.registry import Registry, load_plugins
from tests.support.packages import install_package

MINE = '''
from anabranch import Job, handler, register_job

@register_job
class Mine(Job):
    """Mine."""
    job_type = "hello_world"
    stages = [{"number": 1, "task_type": "echo"}]

@handler("echo")
def echo(params):
    """Mine."""
'''
YAML = "workflow_id: {id}\ndescription: {says}\nnodes:\n  only: {{handler: echo}}\n"


def overridden(logs: Sequence[Mapping[str, object]]) -> list[tuple[object, object]]:
    return [(line["kind"], line["name"]) for line in logs if line["event"] == "plugin.overrides"]


def test_a_callers_plugin_overrides_ours_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    with capture_logs() as logs:
        registry = load_plugins([str(tmp_path)])
    assert registry.handlers["echo"].summary == "Mine."
    assert registry.declaration("hello_world").workflow.description == "Mine."
    assert overridden(logs) == [("handler", "echo"), ("workflow", "hello_world")]


def test_what_is_ours_alone_warns_of_nothing() -> None:
    with capture_logs() as logs:
        load_plugins()
    assert overridden(logs) == []


@pytest.mark.parametrize("kinds", [("yaml", "py"), ("py", "yaml")])
def test_the_later_plugin_overrides_however_it_is_written(tmp_path: Path, kinds: tuple[str, str]) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, kind in zip(folders, kinds, strict=True):
        folder.mkdir()
        text = YAML.format(id="both", says=kind) if kind == "yaml" else MINE.replace("hello_world", "both")
        (folder / f"both_{kind}.{kind}").write_text(text.replace("Mine.", "py"))
    with capture_logs() as logs:
        registry = load_plugins(map(str, folders))
    assert registry.declaration("both").workflow.description == kinds[1]
    assert ("workflow", "both") in overridden(logs)


def test_an_installed_plugin_overrides_ours_whatever_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_package(tmp_path, "aaa", {"anabranch.plugins": {"aaa": "aaa_plugin"}}, aaa_plugin=MINE)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_plugins().handlers["echo"].summary == "Mine."


def test_a_module_that_imports_a_handler_does_not_bring_it_again() -> None:
    def first(params: object) -> None: ...

    def second(params: object) -> None: ...

    original, mine, importing = ModuleType("original"), ModuleType("mine"), ModuleType("importing")
    vars(original)["act"] = vars(importing)["act"] = handler("act")(first)
    vars(mine)["act"] = handler("act")(second)
    registry = Registry()
    with capture_logs() as logs:
        for module in (original, mine, importing):
            registry.add(module)
    assert registry.handlers["act"].function is second
    assert overridden(logs) == [("handler", "act")]
