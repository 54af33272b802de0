"""`workflows` and `handlers` on the command line: they read plugins and files, and need no stack."""

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.cli.main import call
from anabranch.cli.workflows import commands as workflows
from anabranch.client import Reloaded
from anabranch.contract.answer import read

SOUND = """
workflow_id: mine
inputs:
  n: {type: integer, min: 1, max: 1000000, required: true, description: How many.}
nodes:
  one: {handler: echo, params: {n: "{{ inputs.n }}"}, retry: {max_attempts: 2}, timeout_seconds: 9, next: two}
  two: {handler: sleep, on_failure: continue}
"""
BROKEN = SOUND.replace("handler: echo", "handler: ecko").replace("next: two", "nxt: two")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, with plugins of its own."""
    for name in [name for name in os.environ if name.startswith("ANABRANCH_")]:
        monkeypatch.delenv(name)
    (tmp_path / "plugins").mkdir()
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANABRANCH_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Said:
    """What a command printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, command: str, code: int = 0) -> str:
        assert call(command.split()) == code
        self.out, self.err = self._capsys.readouterr()
        return self.out

    def json(self, command: str, code: int = 0) -> Any:
        return json.loads(self(f"{command} --json", code))


@pytest.fixture
def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    (folder / "plugins" / "mine.yaml").write_text(SOUND)
    return Said(capsys)


def test_workflows_are_listed_with_what_was_refused_below(said: Said, folder: Path) -> None:
    (folder / "plugins" / "broken.yaml").write_text(BROKEN.replace("mine", "other"))
    lines = said("workflows list").splitlines()
    listed, refused = lines[: lines.index("")], lines[lines.index("") :]
    assert {"mine", "hello_world", "diamond"} <= {line.split()[0] for line in listed}
    assert refused[1] == "REFUSED"
    assert refused[2].startswith(f"{folder}/plugins/broken.yaml:6:")


def test_the_list_as_json_says_what_and_where_from(said: Said) -> None:
    told = said.json("workflows list")
    assert told["refused"] == []
    found = {flow["workflow_id"]: flow for flow in told["items"]}
    assert (found["mine"]["nodes"], found["mine"]["version"]) == (2, 1)
    assert found["hello_world"]["origin"] == "anabranch.plugins.demo.hello_world"


def test_a_workflow_is_shown_with_its_inputs_nodes_and_policies(said: Said) -> None:
    shown = said("workflows show mine")
    assert "n      integer  -        required, at least 1, at most 1000000  How many.\n" in shown
    rows = {line.split()[0]: line for line in shown.splitlines() if line}
    assert rows["one"].split(maxsplit=5)[1:5] == ["task", "echo", "default", "two"]
    assert rows["one"].endswith("retry max_attempts 2; timeout_seconds 9")
    assert rows["two"].endswith("on_failure continue")


def test_a_workflow_as_json_is_its_definition_and_the_schema_of_its_inputs(said: Said) -> None:
    told = said.json("workflows show mine")
    assert [node["name"] for node in told["definition"]["nodes"]] == ["one", "two"]
    assert told["inputs"]["properties"]["n"]["maximum"] == 1_000_000
    assert told["inputs"]["required"] == ["n"]
    assert len(told["hash"]) == 64


def test_a_workflow_that_is_not_there_exits_3_with_the_nearest(said: Said) -> None:
    said("workflows show diamod", 3)
    assert said.err.startswith("error: there is no workflow 'diamod'\nDid you mean 'diamond'? ")


def test_a_workflow_is_shown_as_the_file_that_gives_its_hash(said: Said, folder: Path) -> None:
    before = said.json("workflows show mine")
    (folder / "plugins" / "mine.yaml").write_text(said("workflows show mine --yaml"))
    assert "timeout_seconds: 9\n" in (folder / "plugins" / "mine.yaml").read_text()
    assert said.json("workflows show mine") == before
    said("workflows show hello_world --yaml", 5)
    assert "class with stages" in said.err


def test_every_mistake_of_every_file_is_told_with_its_place(said: Said, folder: Path) -> None:
    (folder / "a.yaml").write_text(SOUND)
    (folder / "b.yaml").write_text(BROKEN.replace("mine", "second"))
    (folder / "c.yaml").write_text(BROKEN.replace("mine", "third"))
    lines = said("workflows validate a.yaml b.yaml c.yaml", 5).splitlines()
    assert [line.split(":")[:2] for line in lines] == [["b.yaml", "6"]] * 2 + [["c.yaml", "6"]] * 2
    assert re.fullmatch(r"b.yaml:6:\d+: no plugin brings the handler 'ecko'. Did you mean 'echo'\?", lines[0])
    assert said.err.startswith("error: 4 mistakes; 1 workflow is valid\n")


def test_g5_two_files_of_one_id_are_a_mistake_told_once(said: Said, folder: Path) -> None:
    for name in ("a.yaml", "b.yaml", "plugins/a.yaml", "plugins/b.yaml"):
        (folder / name).write_text(CHILD)
    assert said(f"workflows validate a.yaml {folder}/a.yaml") == "2 workflows are valid\n"
    told = "the workflow_id 'inner' is that of a.yaml, too\n"
    assert said("workflows validate a.yaml b.yaml", 5) == f"b.yaml:1:14: {told}"
    assert said("workflows validate", 5) == f"{folder}/plugins/b.yaml: {told}"


def test_mistakes_as_json_are_a_list(said: Said, folder: Path) -> None:
    (folder / "b.yaml").write_text(BROKEN)
    told = said.json("workflows validate b.yaml", 5)
    assert told[0] == {
        "file": "b.yaml",
        "line": 6,
        "column": told[0]["column"],
        "message": "no plugin brings the handler 'ecko'",
        "hint": "Did you mean 'echo'?",
    }
    (folder / "b.yaml").write_text(SOUND)
    assert said.json("workflows validate b.yaml") == []


def test_without_files_all_that_is_registered_is_judged(said: Said, folder: Path) -> None:
    assert said("workflows validate").endswith(" workflows are valid\n")
    (folder / "plugins" / "broken.yaml").write_text(BROKEN)
    (folder / "plugins" / "broken.py").write_text("1 / 0")
    told = {(m["file"], m["line"], m["message"]) for m in said.json("workflows validate", 5)}
    where = str(folder / "plugins" / "broken")
    assert (f"{where}.yaml", 6, "no plugin brings the handler 'ecko'") in told
    assert (f"{where}.py", None, "ZeroDivisionError: division by zero (broken.py, line 1)") in told


CHILD = "workflow_id: inner\ninputs: {n: {type: integer, required: true}}\nnodes: {a: {handler: echo}}\n"
PARENT = "workflow_id: outer\nnodes:\n  a: {type: workflow, workflow: inner, params: {n: 1}}\n"


@pytest.mark.parametrize("order", ["inner.yaml outer.yaml", "outer.yaml inner.yaml"])
def test_files_that_run_each_other_are_judged_together(order: str, said: Said, folder: Path) -> None:
    (folder / "inner.yaml").write_text(CHILD)
    (folder / "outer.yaml").write_text(PARENT)
    assert said(f"workflows validate {order}") == "2 workflows are valid\n"
    (folder / "outer.yaml").write_text(PARENT.replace("1", "one"))
    assert said(f"workflows validate {order}", 5) == (
        "outer.yaml:3:52: the input 'n' of inner must be an integer, not a string\n"
    )
    (folder / "outer.yaml").write_text(PARENT)
    (folder / "inner.yaml").write_text(CHILD.replace("handler: echo", "type: workflow, workflow: outer"))
    assert sorted(line.split(":")[0] for line in said(f"workflows validate {order}", 5).splitlines()) == [
        "inner.yaml",
        "outer.yaml",
    ]
    assert "a workflow can't run itself, and this one would: outer → inner → outer" in said.out
    (folder / "inner.yaml").write_text(CHILD.replace("echo", "ecko"))
    assert "the workflow 'inner' was refused. Fix inner.yaml first." in said(f"workflows validate {order}", 5)


def test_a_file_is_judged_beside_what_is_registered(said: Said, folder: Path) -> None:
    (folder / "outer.yaml").write_text(PARENT)
    assert said("workflows validate outer.yaml", 5).startswith("outer.yaml:3:33: there is no workflow 'inner'. ")
    (folder / "plugins" / "inner.yaml").write_text(CHILD)
    assert said("workflows validate outer.yaml") == "1 workflow is valid\n"
    (folder / "plugins" / "outer.yaml").write_text(PARENT.replace("n: 1", "n: 1, m: 2"))
    told = said.json("workflows validate", 5)
    assert [(Path(m["file"]).name, m["line"], m["message"]) for m in told] == [
        ("outer.yaml", 3, "inner takes no input 'm'")
    ]


def test_a_file_is_checked_and_never_run(said: Said, folder: Path) -> None:
    (folder / "evil.py").write_text("open('ran', 'w')")
    said("workflows validate evil.py", 5)
    assert not (folder / "ran").exists()


def test_a_file_that_is_not_there_is_told_beside_the_mistakes_of_the_others(said: Said, folder: Path) -> None:
    (folder / "b.yaml").write_text(BROKEN)
    alone = said("workflows validate b.yaml", 5).splitlines()
    lines = said("workflows validate none.yaml b.yaml gone.yaml b.yaml", 5).splitlines()
    assert lines[1:-1] == alone
    assert [lines[0], lines[-1]] == [
        f"{name}.yaml: can't be read: No such file or directory. Name a YAML file that contains a workflow."
        for name in ("none", "gone")
    ]
    assert said.json("workflows validate none.yaml", 5)[0]["line"] is None


def test_a_file_that_is_not_there_is_not_drawn(said: Said) -> None:
    assert said("workflows graph none.yaml", 5) == ""
    assert said.err.startswith("error: none.yaml can't be read: No such file or directory\n")


def test_a_workflow_is_drawn_by_its_name_or_from_its_file(said: Said, folder: Path) -> None:
    (folder / "draft.yaml").write_text(SOUND.replace("handler: echo", "handler: not_there_yet"))
    assert "│ echo  │\n" in said("workflows graph mine")
    assert "not_there_yet" in said("workflows graph draft.yaml")
    assert said("workflows graph mine --svg").startswith("<svg ")


def test_a_drawing_goes_to_a_file(said: Said, folder: Path) -> None:
    assert said("workflows graph mine --svg --output flow.svg") == ""
    assert (folder / "flow.svg").read_text().endswith("</svg>\n")
    said("workflows graph mine --output nowhere/flow.txt", 5)
    assert said.err.startswith("error: nowhere/flow.txt can't be written: ")


def test_a_broken_file_is_not_drawn_but_all_its_mistakes_are_told(said: Said, folder: Path) -> None:
    (folder / "b.yaml").write_text(BROKEN)
    said("workflows graph b.yaml", 5)
    assert said.err.startswith("error: b.yaml:6:101: ")


@pytest.mark.parametrize(("encoding", "seen"), [("utf-8", b"\xe2\x94\x82 mine"), ("ascii", b"\\u2502 mine")])
def test_what_a_terminal_cannot_show_is_escaped(encoding: str, seen: bytes, said: Said, folder: Path) -> None:
    (folder / "flow.yaml").write_text("workflow_id: flow\nnodes:\n  mine: {handler: echo}\n")
    program = [sys.executable, "-m", "anabranch", "workflows", "graph", "flow.yaml"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    assert seen in subprocess.run(program, env=environment, capture_output=True, check=True).stdout


def test_handlers_are_listed(said: Said) -> None:
    line = next(line for line in said("handlers").splitlines() if line.startswith("memory_hog "))
    assert line.split(maxsplit=5)[2:5] == ["default", "30", "min"]
    assert line.endswith("in a fresh child with limits           Allocate memory and write to all of it.")
    found = {handler["name"]: handler for handler in said.json("handlers")}
    assert {"version", "queue", "timeout_seconds", "runs", "summary"} <= found["echo"].keys()


def test_what_is_missing_from_a_list_of_handlers_is_told(said: Said, folder: Path) -> None:
    (folder / "plugins" / "broken.py").write_text("1 / 0")
    said("handlers")
    assert said.err == f"warning: {folder}/plugins/broken.py can't be used; `anabranch workflows validate` shows why\n"


def test_a_reload_tells_what_changed_and_what_it_does_not_read(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {"added": ["a", "b"], "changed": [], "removed": [], "kept": ["c"], "refused": [{"name": "d", "reason": "no"}]}
    client = SimpleNamespace(reload_workflows=lambda: read(Reloaded, raw))
    monkeypatch.setattr(workflows, "connect", lambda: nullcontext(client))
    assert said("workflows reload") == "added    a, b\nkept     c\n\nREFUSED\nd: no\n"
    assert "Python code is not reloaded" in said.err
    assert said.json("workflows reload") == raw


def test_a_reload_needs_a_stack(said: Said) -> None:
    said("workflows reload", 9)


def test_the_schema_of_files_is_printed_for_editors(said: Said) -> None:
    told = json.loads(said("workflows schema"))
    assert told["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"workflow_id", "nodes", "inputs"} <= told["properties"].keys()
