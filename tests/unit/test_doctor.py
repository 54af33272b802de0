"""The doctor says what is wrong with a machine and what to do, and changes nothing."""

import asyncio
import json
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.doctor import checks, machine
from anabranch.cli.main import call
from anabranch.oidc.settings import OidcSettings
from anabranch.sandbox import Protections
from anabranch.settings import Settings
from tests.support.issuer import open_issuer
from tests.support.receiver import answering

Examine = Callable[[], tuple[int, Mapping[str, Any]]]  # JSON


@pytest.fixture
def examine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, Mapping[str, Any]]]:
    """The exit code of the doctor in a home of its own, and its checks by name."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANABRANCH_PORT", "0")

    def run() -> tuple[int, Mapping[str, Any]]:
        code = call(["doctor", "--json"])
        return code, {check["check"]: check for check in json.loads(capsys.readouterr().out)["checks"]}

    return run


def test_what_needs_no_stack_is_checked_without_one(examine: Examine) -> None:
    code, found = examine()
    assert code == 0
    assert (found["stack"]["status"], found["stack"]["remedy"]) == ("warn", "Start it with `anabranch up --detach`.")
    assert {found[name]["status"] for name in ("python", "packages", "children", "home", "port", "plugins")} == {"ok"}
    assert "database" not in found


def test_a_package_that_is_missing_or_too_old_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["structlog>=999", "nobody-has-this>=1; extra == 'api'", "nor-this; extra == 'dev'"]
    monkeypatch.setattr(machine, "requires", lambda _name: wanted)
    found = machine.check_packages()
    assert found.status == "fail"
    assert "older than 999; nobody-has-this is not installed" in found.message
    assert "nor-this" not in found.message
    assert "pip install" in found.remedy


@pytest.mark.parametrize(("low", "status"), [(0, "ok"), (10**10, "fail")])
def test_a_home_with_little_room_is_told(low: int, status: str, tmp_path: Path) -> None:
    assert machine.check_home(Settings(home=tmp_path, low_disk_mb=low)).status == status


def test_limits_are_told_and_held_against_the_files_that_may_be_open() -> None:
    found = machine.check_limits(Settings(max_connections=20, wrong_keys_per_minute=0))
    assert found.status == "ok"
    assert "20 connections" in found.message
    assert "6000 requests per key and minute" in found.message
    assert "no limit on wrong keys" in found.message
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = machine.check_limits(Settings(max_connections=files))
    assert (many.status, "ulimit -n" in many.remedy) == ("warn", True)


def test_what_the_kernel_does_not_allow_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "FORK_SERVER", "import sys; sys.exit(1)")
    assert machine.check_fork_server().status == "fail"


def test_locks_that_the_kernel_does_not_have_are_told_with_what_to_do() -> None:
    found = machine.report_locks(Protections(offline=True, landlock=0, calls=False))
    assert (found.status, found.remedy.count(";")) == ("warn", 1)
    assert "landlock, seccomp" in found.message
    assert "ABI 2" in machine.report_locks(Protections(offline=True, landlock=2, calls=True)).message
    assert machine.check_isolation().status in ("ok", "warn")


def test_a_database_that_does_not_answer_fails_and_is_told_once(
    examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "postgresql://someone:hunter2@127.0.0.1:1/nowhere")
    code, found = examine()
    assert code == 9
    assert found["database"]["status"] == "fail"
    assert "Start the server" in found["database"]["remedy"]
    assert "hunter2" not in json.dumps(found)
    assert "schema" not in found


@pytest.mark.postgres
def test_a_database_that_is_not_migrated_fails(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, empty_database_url: str
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", empty_database_url)
    code, found = examine()
    assert code == 9
    assert (found["database"]["status"], found["migrations"]["status"]) == ("ok", "fail")
    assert found["migrations"]["remedy"] == "Run `anabranch db migrate`."


@pytest.mark.postgres
def test_a_database_is_checked_for_drift_budget_and_clock(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", database_url)
    monkeypatch.setenv("ANABRANCH_WORKERS", "64")
    monkeypatch.setattr(checks, "MAX_SKEW_SECONDS", -1.0)
    code, found = examine()
    assert code == 9
    assert [found[name]["status"] for name in ("database", "migrations", "schema")] == ["ok", "ok", "ok"]
    assert (found["budget"]["status"], found["clock"]["status"]) == ("fail", "warn")
    assert "max_connections" in found["budget"]["remedy"]


async def test_the_issuer_of_tokens_is_asked_for_its_keys() -> None:
    async with open_issuer() as issuer:
        settings = OidcSettings(**issuer.settings)
        found = await asyncio.to_thread(lambda: next(checks.check_issuer(settings)))
        assert (found.check, found.status, found.message) == ("issuer", "ok", f"{issuer.url} answers, and has 1 key")
        issuer.receiver.behave = answering(404)
        found = await asyncio.to_thread(lambda: next(checks.check_issuer(settings)))
        assert (found.status, "404" in found.message) == ("fail", True)
