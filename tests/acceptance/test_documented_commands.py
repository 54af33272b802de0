"""Every command in the README and the docs is run, or, where that would set up or test again, shown to be there."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS_ROOT = "sudo apt-get"
NAP = """
import time
from anabranch import Context, Interrupted, handler

@handler("nap")
def nap(ctx: Context) -> None:
    while not (ctx.cancelled or ctx.stopping):
        time.sleep(0.1)
    raise Interrupted
"""


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """The commands of a page, in order, those over several lines joined."""
    lines = "".join(blocks(page, "(?:sh|console)")).replace("\\\n", "").splitlines()
    return [line.removeprefix("$ ").split("  #")[0].strip() for line in lines if line.strip()]


def all_commands() -> list[tuple[str, str]]:
    return [(str(page.relative_to(ROOT)), command) for page in PAGES for command in commands(page)]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that has a virtual environment as a clone has it, and a home for the stack."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    yield folder
    run(folder, "anabranch down --purge --yes")
    shutil.rmtree(folder)


def run(folder: Path, *script: str) -> str:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")},
        "ANABRANCH_HOME": str(folder / "home"),
        "ANABRANCH_PORT": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["/bin/bash", "-e", "-c", "\n".join(script)],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("page", "command"), [(p, c) for p, c in all_commands() if c.startswith("make ")])
def test_every_make_target_that_is_named_is_there(page: str, command: str) -> None:
    target = command.split()[1]
    planned = subprocess.run(["make", "-n", target], check=False, cwd=ROOT, capture_output=True, text=True)
    assert planned.returncode == 0, (page, planned.stderr)


def test_every_command_is_of_a_kind_that_is_checked_here() -> None:
    known = ("make ", "anabranch ", "curl ", "export ", ". .venv/bin/activate", "sed ", NEEDS_ROOT)
    assert [(page, command) for page, command in all_commands() if not command.startswith(known)] == []


def test_the_tutorials_work_as_they_are_printed_one_after_the_other(folder: Path) -> None:
    first, second = (ROOT / "docs" / "tutorial" / f"{name}.md" for name in ("first-job", "fix-and-retry"))
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "squares.py").write_text(*blocks(first, "python"))
    (plugins / "roots.py").write_text(*blocks(second, "python"))
    (plugins / "roots.yaml").write_text(*blocks(second, "yaml"))
    steps = [command.replace("make demo", "anabranch demo") for command in commands(first)]
    assert '"sum": 285' in run(folder, *steps, "anabranch submit squares -p n=10 --wait --json")
    printed = run(folder, *_on_running_stack(commands(second)))
    assert "math domain error" in printed
    assert '"root": null' in printed
    assert "job.retried" in printed


def test_the_how_tos_work_as_they_are_printed(folder: Path) -> None:
    """One after the other on one stack; what they print of files is there before it starts."""
    plugins, how_tos = folder / "plugins", ROOT / "docs" / "howto"
    plugins.mkdir()
    for page, names in (("approvals", ["review"]), ("sub-workflows", ["scene", "mosaic"])):
        for name, source in zip(names, blocks(how_tos / f"{page}.md", "yaml"), strict=True):
            (plugins / f"{name}.yaml").write_text(source)
    (plugins / "nap.yaml").write_text("workflow_id: nap\nnodes: {only: {handler: nap}}\n")
    (plugins / "nap.py").write_text(NAP)
    (folder / "dem.tif").write_bytes(b"data")
    run(folder, f"export ANABRANCH_PLUGINS={plugins}", "anabranch up --detach --workers 1")
    expected = {
        "approvals": ['"item": "atlas"', '"why": "blurred"', "gate.signalled"],
        "sub-workflows": ["2 workflows are valid", '"name": "north"', "completed"],
        "storage": ["gold://copy.tif\nremoved 1\n"],
        "retention": [
            "jobs that would be removed: 0 (0 completed, 0 failed, 0 cancelled), with 0 tasks",
            "rows       0",
        ],
    }
    printed = {page: run(folder, *_on_running_stack(commands(how_tos / f"{page}.md"))) for page in expected}
    assert [(page, words) for page in expected for words in expected[page] if words not in printed[page]] == []
    _call_as_the_reference_does(folder)


def _call_as_the_reference_does(folder: Path) -> None:
    url = json.loads(run(folder, "anabranch config show --json"))["api_url"]
    job = run(folder, "anabranch submit hello_world").strip()
    for command in commands(ROOT / "docs" / "reference" / "http.md"):
        if "/retry" in command:  # what has not ended can't be
            job = json.loads(run(folder, "anabranch submit hello_world --wait --json"))["job_id"]
        if "/cancel" in command:  # what has ended can't be
            job = run(folder, "anabranch submit nap --rerun").strip()
        answer = run(folder, command.replace("http://127.0.0.1:8787", url).replace("8c0f", job[:12]) + " -sf")
        assert answer.startswith(("{", "[", "<svg ", "retry: ")), (command, answer)


def _on_running_stack(steps: list[str]) -> list[str]:
    """A page's first `up` starts what the test has started; a later one, after a `down`, is run."""
    first = steps.index("anabranch up --detach") if "anabranch up --detach" in steps else len(steps)
    return steps[:first] + steps[first + 1 :]
