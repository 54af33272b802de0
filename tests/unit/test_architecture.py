"""The house rules hold, and a breach of them is noticed."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_ENTRIES = 20

# The backslashes keep these lines from matching themselves.
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(org|com)|yarnpkg\.com|anaconda\.org|crates\.io|pkg\.dev"
    r"|deb\.debian\.org|archive\.ubuntu\.com"
)
MACHINE_PATH = re.compile(r"(?<![\w.~$}/*-])/(root|work|(home|Users)/\w+)\b/")

BREACHES = [
    ("engine", "import psycopg", "anabranch.engine.planted0 -> psycopg"),
    ("engine", "import anabranch.cli", "anabranch.engine.planted1 -> anabranch.cli"),
    ("engine", "def late():\n    import anabranch.settings", "anabranch.engine.planted2 -> anabranch.settings"),
    ("adapters", "import anabranch.plugins.demo", "anabranch.adapters.planted3 -> anabranch.plugins.demo"),
    ("plugins", "import anabranch.plugins.demo", "anabranch.plugins.planted4 -> anabranch.plugins.demo"),
    ("cli", "import anabranch.api", "anabranch.cli.planted5 -> anabranch.api"),
    ("client", "import anabranch.testing", "anabranch.client.planted6 -> anabranch.testing"),
    ("", "", "not listed as layers:\n\n- anabranch.planted7"),
]


def lint_imports(source: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    command = [str(program), "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    environment = os.environ | {"PYTHONPATH": str(source), "COLUMNS": "200"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_the_contracts_hold(tmp_path: Path) -> None:
    result = lint_imports(ROOT / "src", tmp_path)
    assert result.returncode == 0, result.stdout


def test_contributing_shows_the_layers_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = "\n".join(contracts[0]["layers"])
    assert f"```text\n{layers}\n```" in (ROOT / "CONTRIBUTING.md").read_text()


def test_planted_breaches_are_named(tmp_path: Path) -> None:
    source = shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for number, (folder, code, _) in enumerate(BREACHES):
        (source / "anabranch" / folder / f"planted{number}.py").write_text(code + "\n")

    result = lint_imports(source, tmp_path)

    assert result.returncode == 1
    assert [named for *_, named in BREACHES if named not in result.stdout] == []


def test_no_folder_has_more_entries_than_a_reader_can_take_in() -> None:
    package = ROOT / "src" / "anabranch"
    folders = [folder for folder in package.rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    entries = {folder: [entry for entry in folder.iterdir() if entry.name != "__pycache__"] for folder in folders}
    assert [str(folder.relative_to(package)) for folder, found in entries.items() if len(found) > MAX_ENTRIES] == []


def test_no_tracked_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in tracked_files()
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), start=1)
        if REGISTRY.search(line) or MACHINE_PATH.search(line)
    ]
    assert found == []


def tracked_files() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a clone, or no git to ask")
    return [ROOT / name for name in listing.split("\0") if (ROOT / name).is_file()]


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("index = https://pypi" + ".org/simple", True),
        ("home = /home" + "/ann/clone", True),
        ("'/root" + "/.venv/bin/python'", True),
        ("/usr/lib/postgresql/15/bin and docs/work/flow.md and {home}/root/x", False),
    ],
)
def test_the_patterns_catch_what_they_should(line: str, caught: bool) -> None:
    assert bool(REGISTRY.search(line) or MACHINE_PATH.search(line)) is caught


def test_the_lock_pins_everything_by_hash_and_holds_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"\n(?=\w)", lock)[1:]

    assert [entry for entry in entries if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:", entry, re.DOTALL)] == []
    assert "://" not in lock
    assert not re.search(r"^\s*-(?!-hash=)|[ =]/", lock, re.MULTILINE)


def test_the_lock_covers_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    direct = {canonical(name) for name in sum(extras, project["dependencies"])}

    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))

    assert direct - locked == {"anabranch"}  # itself, by the extra `all`


def canonical(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name.group()).lower()
