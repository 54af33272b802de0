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


def commands(page: Path) -> list[str]:
    """The commands of a page, in order, those over several lines joined."""
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
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


def test_the_tutorial_works_as_it_is_printed(folder: Path) -> None:
    page = ROOT / "docs" / "tutorial" / "first-job.md"
    (source,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (folder / "plugins").mkdir()
    (folder / "plugins" / "squares.py").write_text(source)
    steps = [command.replace("make demo", "anabranch demo") for command in commands(page)]
    assert '"sum": 285' in run(folder, *steps, "anabranch submit squares -p n=10 --wait --json")


def test_a_handler_is_fixed_and_its_failed_task_retried_as_it_is_printed(folder: Path) -> None:
    page = ROOT / "docs" / "tutorial" / "fix-and-retry.md"
    (folder / "plugins").mkdir()
    for kind, name in (("python", "roots.py"), ("yaml", "roots.yaml")):
        (source,) = re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        (folder / "plugins" / name).write_text(source)
    printed = run(folder, *commands(page))
    assert "math domain error" in printed
    assert '"root": null' in printed
    assert "job.retried" in printed


@pytest.mark.parametrize(
    ("page", "files", "expected"),
    [
        ("approvals", ["review"], ['"item": "atlas"', '"why": "blurred"', "gate.signalled"]),
        ("sub-workflows", ["scene", "mosaic"], ["2 workflows are valid", '"name": "north"', "completed"]),
    ],
)
def test_workflows_of_the_how_tos_work_as_they_are_printed(
    folder: Path, page: str, files: list[str], expected: list[str]
) -> None:
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text()
    (folder / "plugins").mkdir()
    for name, source in zip(files, re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL), strict=True):
        (folder / "plugins" / f"{name}.yaml").write_text(source)
    printed = run(folder, *commands(ROOT / "docs" / "howto" / f"{page}.md"))
    assert [words for words in expected if words not in printed] == []


def test_the_calls_of_the_http_reference_work_as_they_are_printed(folder: Path) -> None:
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "nap.yaml").write_text("workflow_id: nap\nnodes: {only: {handler: nap}}\n")
    (plugins / "nap.py").write_text(NAP)
    run(folder, f"export ANABRANCH_PLUGINS={plugins}", "anabranch up --detach")
    url = json.loads(run(folder, "anabranch config show --json"))["api_url"]
    job = run(folder, "anabranch submit hello_world").strip()
    for command in commands(ROOT / "docs" / "reference" / "http.md"):
        if "/retry" in command:  # what has not ended can't be
            job = json.loads(run(folder, "anabranch submit hello_world --wait --json"))["job_id"]
        if "/cancel" in command:  # what has ended can't be
            job = run(folder, "anabranch submit nap --rerun").strip()
        answer = run(folder, command.replace("http://127.0.0.1:8787", url).replace("8c0f", job[:12]) + " -sf")
        assert answer.startswith(("{", "[", "<svg ", "retry: ")), (command, answer)


def test_the_commands_on_storage_work_as_they_are_printed(folder: Path) -> None:
    (folder / "dem.tif").write_bytes(b"data")
    page = ROOT / "docs" / "howto" / "storage.md"
    said = run(folder, "anabranch up --detach --workers 1", *commands(page))
    assert "gold://copy.tif\nremoved 1\n" in said


def test_the_purges_of_the_howto_work_as_they_are_printed(folder: Path) -> None:
    page = ROOT / "docs" / "howto" / "retention.md"
    said = run(folder, "anabranch up --detach --workers 1", "anabranch submit hello_world --wait", *commands(page))
    assert "jobs that would be removed: 0 (0 completed, 0 failed, 0 cancelled), with 0 tasks" in said
    assert "rows       0" in said
