"""A release is made of what is committed, with a changelog, and says what it is made of."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.pages import ROOT

pytestmark = pytest.mark.slow

VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(str(found) if found else 0)
"""
CYCLONEDX = ROOT / ".cache" / "deployment-venv" / "bin" / "python"


class Clone:
    """A clone of this tree whose releases a test makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet")
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
        for name in filter(lambda name: name and (ROOT / name).is_file(), names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        self.commit()

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "tree")

    def note_release(self) -> None:
        """Date the changes of the changelog."""
        changelog = self.folder / "CHANGELOG.md"
        changelog.write_text(changelog.read_text().replace("## Unreleased", "## Unreleased\n\n## 0.1.0 - 2026-01-02"))

    def release(self) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, str(self.folder / "scripts" / "release.py")]
        return subprocess.run(program, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_a_release_has_packages_a_bill_of_materials_and_licences(clone: Clone) -> None:
    clone.note_release()
    clone.commit()

    done = clone.release()

    assert done.returncode == 0, done.stderr
    made = clone.folder / "dist"
    wheel, sdist = made / "anabranch-0.1.0-py3-none-any.whl", made / "anabranch-0.1.0.tar.gz"
    assert "anabranch/adapters/postgres/schema.sql" in zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sdist) as archive:
        assert "anabranch-0.1.0/CHANGELOG.md" in archive.getnames()
    sums = {line.split()[1]: line.split()[0] for line in (made / "SHA256SUMS").read_text().splitlines()}
    assert sums[wheel.name] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert set(sums) == {file.name for file in made.iterdir()} - {"SHA256SUMS"}
    bill = json.loads((made / "anabranch-0.1.0.cdx.json").read_text())
    names = {component["name"] for component in bill["components"]}
    assert {"psycopg", "rasterio", "fastapi", "titiler-core"} <= names
    assert not {"pytest", "ruff", "mypy"} & names
    report = (made / "anabranch-0.1.0-licenses.md").read_text()
    assert set(re.findall(r"^\| ([\w.-]+) \| \d", report, re.MULTILINE)) == names
    assert "|  |" not in report


def test_the_same_commit_gives_the_same_bytes(clone: Clone) -> None:
    clone.note_release()
    clone.commit()
    sums = []
    for _ in range(2):
        assert clone.release().returncode == 0
        sums.append((clone.folder / "dist" / "SHA256SUMS").read_text())
    assert sums[0] == sums[1]


@pytest.mark.skipif(not CYCLONEDX.exists(), reason="make deployment")
def test_the_bill_of_materials_is_valid_cyclonedx(clone: Clone) -> None:
    clone.note_release()
    clone.commit()
    assert clone.release().returncode == 0
    bill = (clone.folder / "dist" / "anabranch-0.1.0.cdx.json").read_text()
    done = subprocess.run([CYCLONEDX, "-c", VALIDATE], input=bill, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_not_committed_is_not_released(clone: Clone) -> None:
    clone.note_release()
    done = clone.release()
    assert done.returncode == 1
    assert "CHANGELOG.md" in done.stderr
    assert not (clone.folder / "dist").exists()


def test_a_version_without_changes_is_not_released(clone: Clone) -> None:
    done = clone.release()
    assert done.returncode == 1
    assert "no section '## 0.1.0 - YYYY-MM-DD'" in done.stderr


def test_changes_that_belong_to_no_release_are_noticed(clone: Clone) -> None:
    clone.note_release()
    changelog = clone.folder / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased\n", "## Unreleased\n\n- Later.\n", 1))
    clone.commit()
    done = clone.release()
    assert done.returncode == 1
    assert "move them to 0.1.0" in done.stderr
