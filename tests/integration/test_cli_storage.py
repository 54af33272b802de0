"""Commands on the tiers, by the settings alone."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.main import call
from tests.support.objects import Cloud

DIGEST = hashlib.sha256(b"data").hexdigest()
Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "dem.tif"
    file.write_bytes(b"data")
    return file


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with --json; its exit code, and what it printed, or its error."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))

    def run(*words: object) -> tuple[int, Any]:
        code = call(["storage", *map(str, words), "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out or err.splitlines()[-1])

    return run


def test_a_file_goes_to_a_tier_and_on_and_back(run: Run, file: Path, tmp_path: Path) -> None:
    stored = {"address": "silver://a/dem.tif", "size": 4, "sha256": DIGEST}
    assert run("cp", file, "silver://a/dem.tif") == (0, stored)
    assert run("cp", "silver://a/dem.tif", "gold://b.tif")[0] == 0
    assert run("cp", "gold://b.tif", tmp_path) == (0, {"address": str(tmp_path), "size": 4, "sha256": DIGEST})
    assert (tmp_path / "b.tif").read_bytes() == b"data"
    code, found = run("stat", "gold://b.tif")
    assert (code, found["address"], found["size"]) == (0, "gold://b.tif", 4)


def test_tn8_folders_are_copied_both_ways_and_between_tiers(run: Run, file: Path, tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("a.tif", "deep/b.tif"):
        (tmp_path / "in" / name).write_text(name)
    done = {"copied": 2, "bytes": 15, "failed": []}
    assert run("cp", "-r", tmp_path / "in", "silver://x") == (0, {"target": "silver://x", **done})
    assert run("cp", "-r", "silver://x", "gold://y/") == (0, {"target": "gold://y/", **done})
    assert run("cp", "-r", "gold://", tmp_path / "out") == (0, {"target": str(tmp_path / "out"), **done})
    assert (tmp_path / "out" / "y" / "deep" / "b.tif").read_text() == "deep/b.tif"
    assert run("cp", tmp_path / "in", "silver://x")[1]["message"].endswith("in is a folder")
    assert run("cp", "-r", file, "silver://x")[1]["code"] == "file.not_found"


def test_w7_a_folder_is_copied_as_far_as_nothing_is_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":
        (tmp_path / "in" / name).touch()
    run("cp", tmp_path / "in" / "a", "silver://x/a")
    code, done = run("cp", "-r", tmp_path / "in", "silver://x")
    assert (code, done["copied"], [one["code"] for one in done["failed"]]) == (6, 1, ["storage.exists"])
    assert run("cp", "-r", tmp_path / "in", "silver://x", "--overwrite")[1]["copied"] == 2


def test_w7_nothing_is_replaced_without_being_asked(run: Run, file: Path) -> None:
    run("cp", file, "silver://a")
    for words in (("cp", file, "silver://a"), ("cp", "silver://a", file)):
        code, error = run(*words)
        assert (code, error["code"]) == (6, "storage.exists")
        assert run(*words, "--overwrite")[0] == 0


def test_lists_go_on_where_they_ended(run: Run, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "abc":
        run("cp", file, f"silver://x/{name}")
    assert [found["address"] for found in run("ls", "silver://x", "--limit", 2)[1]] == ["silver://x/a", "silver://x/b"]
    assert [found["address"] for found in run("ls", "silver://", "--after", "silver://x/b")[1]] == ["silver://x/c"]
    assert call(["storage", "ls", "silver://", "--all"]) == 0
    assert [json.loads(line)["size"] for line in capsys.readouterr().out.splitlines()] == [4, 4, 4]


def test_s6_nothing_is_removed_without_a_yes(run: Run, file: Path) -> None:
    for name in ("x/a", "x/b", "y"):
        run("cp", file, f"silver://{name}")
    code, error = run("rm", "silver://x", "--recursive")
    assert (code, error["code"], error["message"]) == (2, "storage.unconfirmed", "objects that would be removed: 2")
    assert run("rm", "silver://x", "--recursive", "--yes") == (0, {"removed": 2})
    assert run("rm", "silver://no", "--yes")[1]["code"] == "storage.not_found"
    assert run("rm", "silver://y", "--yes") == (0, {"removed": 1})
    assert run("ls", "silver://") == (0, [])


def test_an_object_lists_itself_and_a_folder_needs_recursive(run: Run, file: Path) -> None:
    run("cp", file, "bronze://many/dem.tif")
    for words in (("bronze://many/dem.tif",), ("bronze://many",)):
        assert [row["address"] for row in run("ls", *words)[1]] == ["bronze://many/dem.tif"]
    assert run("ls", "bronze://many/dem.tif", "--after", "bronze://many/dem.tif") == (0, [])
    for folder in ("bronze://many", "bronze://many/", "bronze://"):
        code, told = run("rm", folder, "--yes")
        assert (code, told["message"], "--recursive" in told["remedy"]) == (2, f"{folder} is a folder", True)


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("stat", "silver://no"), 3, "storage.not_found"),
        (("stat", "tin://x"), 3, "storage.tier"),
        (("stat", "silver://a/../b"), 5, "storage.path"),
        (("ls", "silver"), 5, "storage.address"),
        (("cp", "/no/such", "silver://a"), 3, "file.not_found"),
        (("cp", "/tmp", "silver://a"), 5, "upload.unreadable"),
        (("cp", "a", "b"), 2, "usage"),
    ],
)
def test_s3_what_is_wrong_is_told_by_code(run: Run, words: tuple[str, ...], code: int, named: str) -> None:
    assert [(found, error["code"]) for found, error in [run(*words)]] == [(code, named)]


def test_s5_a_store_that_refuses_is_told_without_its_secrets(
    run: Run, file: Path, s3: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_STORAGE__GOLD", s3.url)
    code, error = run("ls", "gold://")
    assert (code, error["code"]) == (5, "storage.options")
    monkeypatch.setenv("ANABRANCH_STORAGE__OPTIONS", json.dumps({"gold": dict(s3.options)}))
    assert run("cp", file, "gold://a")[0] == 0
    assert [found["address"] for found in run("ls", "gold://")[1]] == ["gold://a"]
