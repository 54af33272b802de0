"""The command line without a stack: its errors and exit codes, where it looks, and what it imports."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from rich.progress import Progress

from anabranch.cli.exit_codes import JobFailed, RelayedError, UsageError, exit_code
from anabranch.cli.jobs import history, lists, status
from anabranch.cli.jobs.demo import find_activation
from anabranch.cli.jobs.follow import explain_unavailable, require_success
from anabranch.cli.jobs.links import find_links
from anabranch.cli.main import call
from anabranch.cli.platform import commands
from anabranch.cli.stack import start
from anabranch.cli.stack.plugins import PluginWatcher, explain_missing_plugins
from anabranch.cli.terminal import completers
from anabranch.cli.terminal.bars import NodeBars
from anabranch.cli.terminal.completers import complete_job, complete_queue, complete_workflow
from anabranch.cli.terminal.output import coloured, escape, format_progress, print_json, print_table
from anabranch.cli.terminal.progress import show_progress
from anabranch.client import Event, Graph, JobStatus, Log, NotAllowed, TimedOut
from anabranch.client import Progress as TaskProgress
from anabranch.contract.answer import read
from anabranch.contract.platform import Release
from anabranch.embedded.home import CHILD_MARK, STACK_MARK, Child, Home, Stack
from anabranch.embedded.locate import Remote, find_home, find_remote
from anabranch.embedded.processes import Process, boot_id, identify
from anabranch.embedded.supervisor import Supervisor
from anabranch.engine.ports import SessionGone
from anabranch.errors import AnabranchError, Conflict, DefinitionError, InputError, NotFound, Permanent, Unavailable
from anabranch.settings import Settings, load_settings
from tests.support.waiting import PATIENCE_SECONDS

HEAVY = {
    "fastapi",
    "uvicorn",
    "psycopg",
    "rich",
    "structlog",
    "pydantic_settings",
    "anabranch.app",
    "anabranch.settings",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("ANABRANCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AnabranchError("internal", ""), 1),
        (UsageError("usage", ""), 2),
        (NotFound("job.not_found", ""), 3),
        (NotAllowed("auth.missing", ""), 4),
        (InputError("database.not_allowed", ""), 4),
        (InputError("job.parameters", ""), 5),
        (DefinitionError("workflow.invalid", ""), 5),
        (Conflict("stack.running", ""), 6),
        (SessionGone(1), 9),  # type: ignore[arg-type]  # any number is a session here
        (JobFailed("job.failed", ""), 7),
        (JobFailed("storage.not_found", ""), 7),
        (TimedOut("job.timed_out", ""), 8),
        (Unavailable("stack.down", ""), 9),
        (Permanent("no"), 7),
        (RelayedError("stack.port_taken", "", remedy="", exit_code=6), 6),
    ],
)
def test_every_error_has_its_exit_code(error: AnabranchError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--help", 0),
        ("up --help", 0),
        ("db --help", 0),
        ("--version", 0),
        ("config show", 0),
        ("", 2),
        ("db", 2),
        ("nonsense", 2),
        ("status", 9),
        ("up --workers none", 2),
        ("up --port 70000", 2),
        ("down --purge", 2),
        ("down --bronze", 2),
        ("limits set qeue default 3", 2),
        ("db reset", 2),
        ("keys", 2),
        ("keys create ci", 2),
        ("keys create ci --scope root", 2),
        ("keys create ci --scope read --expires never", 2),
        ("keys create ci --scope read --expires 0d", 5),
        ("keys create ci --scope read", 9),
        ("keys list", 9),
        ("keys revoke abc", 9),
        ("submit hello_world -p n", 5),
        ("run hello_world -p file=@x", 5),
        ("status abc", 9),
        ("jobs", 9),
        ("tasks abc", 9),
        ("events abc", 9),
        ("logs abc", 9),
        ("cancel abc", 9),
        ("cancel", 2),
        ("workers", 9),
        ("submit hello_world", 9),
        ("submit hello_world --bulk - -p n=1", 2),
        ("submit hello_world --bulk - --wait", 2),
        ("submit hello_world --bulk none", 9),
        ("db url", 9),
        ("workflows", 2),
        ("workflows reload", 9),
        ("webhooks listen --secret short", 5),
        ("releases list --ref a=1 --ref a=2", 2),
        ("webhooks listen --event job.* --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 2),
        ("down", 0),
    ],
)
def test_a_command_ends_with_the_code_that_is_promised(command: str, code: int) -> None:
    assert call(command.split()) == code


@pytest.mark.parametrize("command", ["up", "up --detach", "run hello_world", "api"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_s1_no_stack_listens_beyond_loopback_without_keys(
    command: str, host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_AUTH", "none")
    monkeypatch.setenv("ANABRANCH_HOST", host)
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")
    assert call(command.split()) == 5
    assert f"can't listen on {host} without keys" in capsys.readouterr().err


def test_a_url_that_is_given_stands_above_the_stack_of_the_home(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("ANABRANCH_API_URL", "http://127.0.0.1:1")
    for command in (["jobs"], ["run", "hello_world"], ["keys", "list"]):
        assert call(command) == 9
        assert "the API at http://127.0.0.1:1 does not answer" in capsys.readouterr().err
    assert not home.exists()


@pytest.mark.parametrize("where", ["environment", "file"])
def test_the_api_and_its_key_are_those_of_the_settings(where: str, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    if where == "environment":
        monkeypatch.setenv("ANABRANCH_API_URL", "https://api.example")
        monkeypatch.setenv("anabranch_api_key", "anb_x")
    else:
        home.mkdir()
        (home / "anabranch.toml").write_text('api_url = "https://api.example"\napi_key = "anb_x"\n')
    assert find_remote() == Remote("https://api.example", "anb_x")


def test_s5_the_key_of_the_settings_is_masked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_API_KEY", "anb_hidden")
    monkeypatch.setenv("ANABRANCH_API_URL", "https://api.example")
    for command in (["config", "show"], ["config", "show", "--json"]):
        assert call(command) == 0
        shown = capsys.readouterr().out
        assert "hidden" not in shown
        assert "https://api.example" in shown


@pytest.mark.parametrize("key", ["anb_hid\nden", "anb_hiddén", "anb hidden"])
def test_s5_a_key_that_cannot_be_sent_is_not_shown(
    key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_API_KEY", key)
    monkeypatch.setenv("ANABRANCH_API_URL", "http://127.0.0.1:1")
    assert call(["jobs"]) == 5
    said = capsys.readouterr().err
    assert "ANABRANCH_API_KEY" in said
    assert "hid" not in said


def test_an_error_says_what_and_what_to_do_on_stderr(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    call(["status", "abc"])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"error: nothing runs in {home}\nStart it with `anabranch up --detach`.\n"


@pytest.mark.parametrize(("command", "code"), [("status abc --json", "stack.down"), ("status --json", "stack.down")])
def test_with_json_an_error_is_a_problem_object(command: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    call(command.split())
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err).keys() == {"code", "message", "remedy"}
    assert json.loads(said.err)["code"] == code


def test_wrong_settings_are_told_all_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_PORT", "high")
    monkeypatch.setenv("ANABRANCH_WORKERS", "0")
    assert call(["config", "show"]) == 5
    said = capsys.readouterr().err
    assert "ANABRANCH_PORT" in said
    assert "ANABRANCH_WORKERS" in said


def test_a_stack_that_fails_in_the_background_says_what_it_would_in_the_foreground(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_PORT", "0")
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "nonsense")
    assert call(["up", "--detach"]) == 5
    behind = capsys.readouterr().err
    assert call(["up"]) == 5
    assert behind.splitlines()[0].startswith("error: ")
    assert capsys.readouterr().err.endswith(behind)


@pytest.mark.parametrize("command", ["up", "up --detach", "run hello_world"])
@pytest.mark.parametrize("plugin", ["/nowhere/plugins", "no_such_plugin"])
def test_tn14_a_stack_is_not_started_without_a_plugin_that_the_settings_name(
    command: str, plugin: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_PORT", "0")
    monkeypatch.setenv("ANABRANCH_PLUGINS", plugin)
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "nonsense")  # it gets no further if the plugin is not missed
    assert call(command.split()) == 5
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("error: ")] == [said[-2]]
    assert plugin in said[-2]


def test_variables_that_are_no_settings_are_told_with_the_nearest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_WORKES", "3")
    for ours in (STACK_MARK, CHILD_MARK, "ANABRANCH_LISTEN_FD", "anabranch_port"):
        monkeypatch.setenv(ours, "1")
    told = "ANABRANCH_WORKES is not a setting and is ignored; the nearest setting is ANABRANCH_WORKERS"
    assert call(["config", "show"]) == 0
    assert capsys.readouterr().err == f"warning: {told}\n"
    call(["doctor", "--json"])
    checks = {check["check"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert (checks["settings"]["status"], checks["settings"]["message"]) == ("warn", told)


def test_the_api_whose_port_is_taken_is_told_of_the_setting(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "postgresql:///nothing")
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("ANABRANCH_PORT", str(other.getsockname()[1]))
        assert call(["api"]) == 6
    assert "Set ANABRANCH_PORT" in capsys.readouterr().err


def test_the_doctor_knows_the_port_that_a_killed_stack_of_this_home_holds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    Home(home).acquire()
    left = subprocess.Popen(["sleep", "600"], env={STACK_MARK: str(Home(home).stack_id)})
    with socket.create_server(("127.0.0.1", 0)) as held, left:
        monkeypatch.setenv("ANABRANCH_PORT", str(held.getsockname()[1]))
        call(["doctor", "--json"])
        left.kill()
    checks = {check["check"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert "another process" not in checks["port"]["message"]
    assert "anabranch down" in checks["port"]["remedy"]


def break_down(*_: object) -> None:
    raise KeyError("a mistake\nof ours")


def test_a_mistake_of_ours_is_one_line_and_the_details_are_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    Home(home).acquire()
    monkeypatch.setattr(lists, "connect", break_down)
    assert call(["jobs"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: KeyError: ")
    assert "Traceback" not in said
    assert f"the traceback is in {home}/logs/cli.log" in said
    assert "break_down" in (home / "logs" / "cli.log").read_text()


def test_a_mistake_of_ours_shows_its_trace_when_debugging(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_LOG_LEVEL", "debug")
    monkeypatch.setattr(lists, "connect", break_down)
    assert call(["jobs"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(lists, "connect", interrupt)
    assert call(["jobs"]) == 130


def test_a_reader_who_has_gone_is_no_error(home: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "anabranch", "config", "show"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.close()
    _, said = program.communicate(timeout=PATIENCE_SECONDS)
    assert (program.returncode, said) == (141, b"")


@pytest.mark.parametrize("command", ["--version", "config show"])  # less than a buffer holds, and more
@pytest.mark.parametrize(("where", "code"), [(">&-", 0), (">&- 2>&- <&-", 0), (">/dev/full", 1)])
def test_a_stdout_that_is_closed_or_full_makes_no_traceback(command: str, where: str, code: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    shell = ["sh", "-c", f'exec "$0" -m anabranch {command} {where}', sys.executable]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == ("error: stdout can't be written: No space left on device\n" if code else "")


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"ANABRANCH_HOME": "/tmp/somewhere"},
        {"ANABRANCH_HOME": "relative"},
        {"ANABRANCH_HOME": "~/data"},
        {"ANABRANCH_HOME": ""},
        {"anabranch_home": "/tmp/small"},
        {"XDG_DATA_HOME": "/tmp/xdg"},
        {"ANABRANCH_CONFIG": "{folder}/named.toml"},
        {"XDG_DATA_HOME": "{folder}"},
        {"XDG_DATA_HOME": "{folder}", "ANABRANCH_HOME": "/tmp/above"},
    ],
)
def test_the_home_is_the_one_of_the_settings(
    environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "anabranch").mkdir()
    (tmp_path / "anabranch" / "anabranch.toml").write_text('home = "/tmp/by-default-file"')
    (tmp_path / "named.toml").write_text('home = "/tmp/by-named-file"')
    monkeypatch.delenv("ANABRANCH_HOME")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(folder=tmp_path))
    assert find_home().path == Home(load_settings().home).path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prot = 8787", "{file}: there is no setting prot; the nearest is port"),
        ("[storage]\nglod = 'x'", "{file}: there is no setting storage.glod; the nearest is storage.gold"),
        ("port = -1", "{file}: port: Input should be greater than or equal to "),
        ("port = ", "{file} is not TOML: Invalid value (at "),
        ("\udcff", "{file} is not TOML: "),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_its_path_and_key(
    text: str, told: str, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    home.mkdir()
    file = home / "anabranch.toml"
    file.write_text(text, errors="surrogateescape")
    assert call(["config", "show"]) == 5
    assert told.format(file=file) in capsys.readouterr().err


def test_a_mistake_in_a_variable_is_reported_with_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    home.mkdir()
    (home / "anabranch.toml").write_text("port = 8787")
    monkeypatch.setenv("ANABRANCH_PORT", "-1")
    monkeypatch.setenv("ANABRANCH_STORAGE__GLOD", "x")
    assert call(["config", "show"]) == 5
    told = capsys.readouterr().err
    assert "ANABRANCH_PORT: Input should be " in told
    assert "there is no setting ANABRANCH_STORAGE__GLOD; the nearest is ANABRANCH_STORAGE__GOLD" in told


def test_config_shows_origins_and_masks_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "postgresql://me:hidden@host/db")
    assert call(["config", "show", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "hidden" not in shown
    config = json.loads(shown)
    assert config["api_url"] is None
    assert config["settings"]["home"] == {"value": str(home), "origin": "environment ANABRANCH_HOME"}
    assert config["settings"]["database_url"]["value"] == "**********"
    assert config["settings"]["port"] == {"value": 8787, "origin": "default"}


def test_the_database_url_of_the_settings_needs_no_stack(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "postgresql://me:hidden@host/db")
    assert call(["db", "url"]) == 0
    assert capsys.readouterr().out == "postgresql://me:hidden@host/db\n"


def test_tables_are_plain_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["job", "status"], [["a", "completed"], ["long", None]])
    assert capsys.readouterr().out == "JOB   STATUS\na     completed\nlong  -\n"


MOMENT = "2026-01-02T03:04:05.678900Z"
LINKS = dict.fromkeys(("self", "status", "tasks", "events", "logs", "graph", "stream", "bundle"), "/")
COUNTS = dict.fromkeys(("total", "ready", "running", "due", "completed", "failed", "cancelled"), 0)
UNSAFE = "\x1b[2J\r\x9b1A\u202e"


def test_what_could_fool_a_terminal_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert escape(f"a\tb\n{UNSAFE}é") == "a\tb\n\\x1b[2J\\x0d\\x9b1A\\u202eé"
    print_table(["what"], [[f"a\n{UNSAFE}"]])
    assert capsys.readouterr().out.splitlines()[1] == "a\\n\\x1b[2J\\x0d\\x9b1A\\u202e"
    print_json(UNSAFE)
    shown = capsys.readouterr().out
    assert (json.loads(shown), shown.strip().isprintable()) == (UNSAFE, True)


def test_events_say_what_came_with_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    came = [{}, {"code": "x", "message": "no pixels"}, {"n": 1}]
    listed = [read(Event, {"seq": 1, "at": MOMENT, "kind": "node.failed", "node": "a", "data": data}) for data in came]
    client = SimpleNamespace(events=lambda *_, **__: SimpleNamespace(items=listed, next="3"))
    monkeypatch.setattr(history, "connect", lambda: nullcontext(client))
    assert call(["events", "abc"]) == 0
    said = capsys.readouterr()
    assert [line.split("  ")[-1].strip() for line in said.out.splitlines()] == ["WHAT", "-", "no pixels", '{"n": 1}']
    assert said.err == "next page: --after 3\n"


def test_logs_stand_under_the_attempt_that_printed_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = {
        "task_id": "a",
        "node": "work",
        "index": 3,
        "attempt": 2,
        "log": "one\r\n\x1b[2Jtwo\n",
        "metrics": {"rows": 5},
    }
    other = {"task_id": "b", "node": "join", "index": "x", "attempt": 1, "log": None, "metrics": {}}
    listed = [read(Log, raw) for raw in (attempt, other)]
    client = SimpleNamespace(logs=lambda *_, **__: SimpleNamespace(items=listed, next=None))
    monkeypatch.setattr(history, "connect", lambda: nullcontext(client))
    assert call(["logs", "abc"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "==> work 3, attempt 2 <==",
        "one",
        "\\x1b[2Jtwo",
        '{"metrics": {"rows": 5}}',
        "==> join x, attempt 1 <==",
    ]


LINES = """\
printed
2026-01-01 10:00:00,123 WARNING [abc] slow
  because of this
2026-01-01T10:00:00Z [info     ] read
Traceback (most recent call last):
  File "x.py"
ValueError: no
"""


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ([], LINES.splitlines()),
        (["--level", "info"], LINES.splitlines()),
        (["--level", "warning"], [*LINES.splitlines()[1:3], *LINES.splitlines()[4:]]),
        (["--level", "error"], LINES.splitlines()[4:]),
        (["--grep", "^ "], [LINES.splitlines()[2], LINES.splitlines()[5]]),
        (["--level", "error", "--grep", "slow"], []),
    ],
)
def test_tn7_lines_of_logs_are_picked_by_level_and_pattern(
    options: list[str], kept: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read(Log, {"task_id": "a", "node": "work", "index": 0, "attempt": 1, "log": LINES, "metrics": None})
    client = SimpleNamespace(
        logs=lambda *_, **__: SimpleNamespace(items=[log], next=None),
        job=lambda _: SimpleNamespace(job_id="abc", ended=True),
    )
    monkeypatch.setattr(history, "connect", lambda: nullcontext(client))
    assert call(["logs", "abc", *options]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == kept
    assert call(["logs", "abc", "--grep", "("]) == 2


@pytest.mark.parametrize(("no_color", "seen"), [("", "\x1b[31mfailed\x1b[0m"), ("1", "failed")])
def test_no_color_is_heeded(no_color: str, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    assert coloured("failed") == seen


def job(*nodes: dict[str, Any], **more: object) -> JobStatus:
    counts = {name: sum(node["tasks"][name] for node in nodes) for name in COUNTS}
    known = {
        "job_id": "abc", "job_type": "pair", "status": "running", "priority": 5, "created_at": MOMENT, "links": LINKS,
        "correlation_id": "c", "generation": 0, "stage": 1, "total_stages": 1, "progress": 0.5,
        "idle_seconds": 0, "platform": "default",
    }  # fmt: skip
    return read(JobStatus, {**known, "tasks": counts, "nodes": list(nodes), "parameters": {}, **more})


def node(name: str, state: str, total: int, completed: int) -> dict[str, Any]:  # as the API returns it
    counts = {**COUNTS, "total": total, "completed": completed}
    opened = None if state == "pending" else MOMENT
    return {"name": name, "status": state, "tasks": counts, "done": completed, "opened_at": opened}


NODES = (node("first", "running", 4, 3), node("second", "running", 0, 0), node("third", "pending", 0, 0))


def test_a_status_shows_no_number_that_is_not_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SimpleNamespace(job=lambda _: job(*NODES), base_url="")
    monkeypatch.setattr(status, "connect", lambda: nullcontext(client))
    assert call(["status", "abc"]) == 0
    shown = capsys.readouterr().out
    assert "tasks     3 of 4 completed, 0 failed; more tasks may be added\n" in shown
    assert [line.split()[1:] for line in shown.splitlines()[-3:]] == [
        ["running", "4", "3", "0"],
        ["running", "-", "-", "-"],
        ["pending", "-", "-", "-"],
    ]


def test_a_release_shows_its_error_and_the_revision_that_is_published(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, Any] = dict.fromkeys(field.name for field in fields(Release))
    release = Release(**{
        **known, "release_id": "1f8c", "revision": 2, "number": 3, "shown_revision": 1,
        "items": [SimpleNamespace(links={"item": "/stac/x"})],
        "processing_status": "failed", "approval_status": "pending_review",
        "error": {"code": "raster.empty", "message": "no pixels", "remedy": "Send some."},
    })  # fmt: skip
    client = SimpleNamespace(platform=SimpleNamespace(status=lambda _: release))
    monkeypatch.setattr(commands, "connect", lambda: nullcontext(client))
    said = "release 1f8c revision 2: processing failed, pending_review"
    assert call(["releases", "show", "1f8c"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{said}; publication 3, which shows revision 1, is published",
        "item /stac/x",
        "error raster.empty: no pixels",
        "Send some.",
    ]


def test_a_status_names_the_decisions_on_a_release(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = {**node("review", "waiting", 0, 0), "command": "anabranch approvals approve 1f8c"}
    monkeypatch.setattr(status, "connect", lambda: nullcontext(SimpleNamespace(job=lambda _: job(gate), base_url="")))
    assert call(["status", "abc"]) == 0
    shown = capsys.readouterr().out
    assert "answer    anabranch approvals approve 1f8c\n" in shown
    assert "          anabranch approvals reject 1f8c --reason WHY\n" in shown


def test_a_status_shows_how_far_a_fan_out_is_and_leaves_out_the_time_before_a_retry(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"created_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T01:00:05Z", "idle_seconds": 3600}
    found = job({**node("first", "running", 4, 2), "done": 2.4}, node("second", "pending", 0, 0), **times)
    monkeypatch.setattr(status, "connect", lambda: nullcontext(SimpleNamespace(job=lambda _: found, base_url="")))
    assert call(["status", "abc"]) == 0
    shown = capsys.readouterr().out
    assert "took      5 s\n" in shown
    assert [line.split()[5:] for line in shown.splitlines()[-2:]] == [["60", "%"], ["-"]]


PUBLISHED = {
    "items": [{"collection": "scenes", "id": "a b"}],
    "outputs": [{"name": "a.tif", "kind": "cog"}, {"name": "a.png", "kind": "thumbnail"}],
}


@pytest.mark.parametrize(
    ("result", "links"),
    [
        (
            PUBLISHED,
            [
                ("map", "http://x/data#collection=scenes&item=a+b"),
                ("item", "http://x/stac/collections/scenes/items/a%20b"),
                ("tiles", "http://x/raster/collections/scenes/items/a%20b/WebMercatorQuad/tilejson.json"),
                ("file", "http://x/files/current/scenes/a%20b/a.tif"),
                ("file", "http://x/files/current/scenes/a%20b/a.png"),
            ],
        ),
        (
            {**PUBLISHED, "outputs": [{"name": "a.json", "kind": "mosaic"}, {"name": "t.tif", "kind": "tile"}]},
            [
                ("map", "http://x/data#collection=scenes&item=a+b"),
                ("item", "http://x/stac/collections/scenes/items/a%20b"),
                ("tiles", "http://x/raster/collections/scenes/items/a%20b/WebMercatorQuad/tilejson.json"),
                ("file", "http://x/files/current/scenes/a%20b/a.json"),
            ],
        ),
        (
            {"items": [{"collection": "scenes", "id": str(n)} for n in range(10_000)], "outputs": []},
            [
                ("map", "http://x/data"),
                *(("item", f"http://x/stac/collections/scenes/items/{n}") for n in range(20)),
                ("items", "http://x/stac/collections/scenes/items"),
            ],
        ),
        ({**PUBLISHED, "items": []}, []),
        ({"items": [{"collection": "..", "id": "a"}], "outputs": 1}, []),
        ([1], []),
        (None, []),
    ],
)
def test_tn15_a_publishing_job_ends_with_links(result: object, links: list[tuple[str, str]]) -> None:
    assert find_links("http://x", job(status="completed", result=result)) == links


def test_a_job_prints_in_a_few_lines_and_shows_itself_in_a_notebook() -> None:
    error = {"code": "a.b", "message": "<no> pixels", "remedy": "Send others."}
    failed = job(node("first", "failed", 4, 3), status="failed", error=error)
    assert str(failed).splitlines() == [
        "pair abc: failed", "  3 of 4 tasks completed", "  error: <no> pixels", "  Send others.",
    ]  # fmt: skip
    assert "&lt;no&gt; pixels" in failed._repr_html_()
    assert "<td>first</td><td>failed</td><td>3 of 4</td>" in failed._repr_html_()


def test_a_status_draws_the_graph_with_states(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"kind": "task", "note": "do", "x": 0, "y": 0, "width": 9, "height": 9}
    drawn = {
        "job_id": "abc", "status": "running", "width": 9, "height": 9, "svg": "",
        "nodes": [{"id": "a", "label": "a", "status": "completed", **place},
                  {"id": "b", "label": "b", "status": "running", **place}],
        "edges": [{"tail": "a", "head": "b", "label": "", "points": []}],
    }  # fmt: skip
    graph = read(Graph, drawn)
    client = SimpleNamespace(job=lambda _: job(*NODES), graph=lambda _: graph, base_url="")
    monkeypatch.setattr(status, "connect", lambda: nullcontext(client))
    assert call(["status", "abc", "--graph"]) == 0
    shown = capsys.readouterr().out
    assert "│ ✓ a │" in shown
    assert "│ ▸ b │" in shown
    assert shown.splitlines()[-1] == "✓ completed  ▸ running"
    assert call(["status", "abc", "--graph", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == drawn


def test_progress_shows_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(quiet=False) as show:
        show(job(*NODES))
    assert capsys.readouterr().err == "first: running 3/4\nsecond: running\n"
    bars = Progress(disable=True)
    NodeBars(bars).show(job(*NODES))
    assert [(bar.description, bar.completed, bar.total) for bar in bars.tasks] == [("first", 3, 4), ("second", 0, None)]


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (None, None),
        ({"done": 3, "total": 10, "message": "fetching\nmuch", "at": MOMENT}, "3 of 10: fetching much"),
        ({"done": 0.5, "total": None, "message": "", "at": MOMENT}, "0.5"),
    ],
)
def test_the_progress_of_a_task_is_told_in_a_few_words(progress: dict[str, Any] | None, words: str | None) -> None:
    assert format_progress(read(TaskProgress, progress) if progress else None) == words


def test_bars_show_what_a_task_says_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    bars = Progress(disable=True)
    node = {**NODES[0], "progress": {"done": 1, "total": 2, "message": "[bold]\x1b[31mred", "at": MOMENT}}
    NodeBars(bars).show(job(node))
    assert bars.tasks[0].fields["status"] == "1 of 2: [bold]\\x1b[31mred"


@pytest.mark.parametrize(
    "command", [["--help"], ["workflows", "--help"], ["keys", "--help"], ["status", "abc"], ["down"]]
)
def test_light_commands_import_nothing_heavy(command: list[str]) -> None:
    program = [sys.executable, "-X", "importtime", "-m", "anabranch", *command]
    said = subprocess.run(program, capture_output=True, text=True, check=False).stderr
    imported = {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
    assert "anabranch.cli.main" in imported
    assert imported & HEAVY == set()


@pytest.mark.parametrize(("failed", "command"), [(1, "tasks abc --status failed"), (0, "events abc")])
def test_a_failed_job_points_to_what_there_is_to_see(failed: int, command: str) -> None:
    """A node whose expression failed has no tasks to look at."""
    error = {"code": "handler.unknown", "message": "no", "remedy": ""}
    with pytest.raises(JobFailed) as raised:
        require_success(job(status="failed", error=error, tasks={**COUNTS, "failed": failed}))
    assert raised.value.remedy == f"See `anabranch {command}`."


def test_a_failed_job_says_what_to_do_by_its_code() -> None:
    error = {"code": "handler.output", "message": "the handler printed more than 256 MB", "remedy": ""}
    with pytest.raises(JobFailed) as raised:
        require_success(job(status="failed", error=error, tasks={**COUNTS, "failed": 1}))
    assert raised.value.remedy == (
        "Print less; write large output to `ctx.scratch`. See `anabranch tasks abc --status failed`."
    )


@pytest.mark.parametrize(
    ("command", "environment", "said"),
    [
        ("storage cp nowhere.tif silver://a", {}, ["there is no file nowhere.tif", "Name an existing file"]),
        ("storage stat silver://a", {}, ["there is no silver://a", "`anabranch storage ls silver://`"]),
        ("storage stat /tmp/a.tif", {}, ["'/tmp/a.tif' is not an address", "-p KEY=@FILE"]),
        ("jobs", {"API_URL": "127.0.0.1:1"}, ["must begin with http://", "Fix ANABRANCH_API_URL"]),
        (
            "jobs",
            {"API_URL": "http://127.0.0.1:1"},
            ["127.0.0.1:1 does not answer", "or fix ANABRANCH_API_URL"],
        ),
        ("up", {"PLUGINS": "/nowhere"}, ["error: /nowhere: there is no folder /nowhere", "ANABRANCH_PLUGINS"]),
        ("up", {"STORAGE__SILVER": "ftp://x"}, ["ANABRANCH_STORAGE__SILVER: write it as file:///folder", "Fix"]),
        ("jobs --status done", {}, ["Invalid value for '--status': 'done' is not one of", "--help"]),
        ("keys create", {}, ["Missing argument 'NAME'", "--help"]),
    ],
)
def test_an_error_says_what_and_where_and_what_to_do(
    command: str,
    environment: Mapping[str, str],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"ANABRANCH_{name}", value)
    assert call(command.split()) in (2, 3, 5, 9)
    told = capsys.readouterr().err
    assert [words for words in said if words not in told] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_asks_for_completions(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_ANABRANCH_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


class Listing(BaseHTTPRequestHandler):
    """An API that has one queue for the caller with the right key."""

    def do_GET(self) -> None:
        queue = {"name": "heavy", "ready": 1, "running": 0, "held": 0, "workers": 1, "most": None, "paused": False}
        knows = self.headers.get("Authorization") == "Bearer anb_key"
        self.send_response(200 if knows else 401)
        self.end_headers()
        self.wfile.write(json.dumps([{**queue, "reason": ""}] if knows else {"code": "auth.missing"}).encode())

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


def test_another_api_is_asked_for_completions_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Listing) as server:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        monkeypatch.setenv("ANABRANCH_API_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(completers, "TIMEOUT_SECONDS", 10)
        assert complete_queue("he") == []
        monkeypatch.setenv("ANABRANCH_API_KEY", "anb_key")
        assert complete_queue("he") == [("heavy", "1 ready, 0 running")]
        server.shutdown()


class Empty(BaseHTTPRequestHandler):
    """An API with two workflows and no jobs."""

    def do_GET(self) -> None:
        links = dict.fromkeys(("self", "inputs", "graph", "submit"), "/")
        known = {"name": "", "version": 1, "description": "", "nodes": 1, "origin": "", "hash": "", "links": links}
        flows = [{"workflow_id": name, **known} for name in ("echo", "diamond")]
        self.send_response(200)
        self.end_headers()
        items = flows if "workflows" in self.path else []
        self.wfile.write(json.dumps({"items": items, "refused": [], "next": None}).encode())

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


def test_a_list_of_jobs_of_an_unknown_workflow_is_empty_and_names_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with HTTPServer(("127.0.0.1", 0), Empty) as server:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        monkeypatch.setenv("ANABRANCH_API_URL", f"http://127.0.0.1:{server.server_port}")
        assert [call(["jobs", "--json", "--workflow", name]) for name in ("echo", "diamod")] == [0, 0]
        server.shutdown()
    said = capsys.readouterr()
    assert said.out == "[]\n[]\n"
    assert said.err == "warning: no workflow 'diamod' is known. Did you mean 'diamond'?\n"


def test_an_api_that_hangs_holds_no_shell_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("ANABRANCH_API_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        assert complete_job("a") == []
        assert time.monotonic() - began < 15  # a client waits for longer
    monkeypatch.setenv("ANABRANCH_API_URL", "nonsense")
    assert complete_job("a") == []
    assert capsys.readouterr() == ("", "")


def test_where_nothing_runs_nothing_is_completed_and_nothing_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*complete_job("a"), *complete_workflow("a")] == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("command", ["status abc --watch", "events abc --follow", "logs abc --follow"])
def test_a_job_whose_api_goes_away_is_kept_and_the_command_says_how_to_see_it(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv("ANABRANCH_API_URL", url)
    for module in ("client.operations", "client.job_stream", "cli.jobs.follow_logs"):
        monkeypatch.setattr(f"anabranch.{module}.MAX_OUTAGE_SECONDS", -1)
    assert call(command.split()) == 9
    said, remedy = capsys.readouterr().err.splitlines()
    assert said.startswith(f"error: job abc can't be followed: the API at {url} does not answer: ")
    assert said.endswith(". Unless it was purged, it is kept and continues while a stack is up")
    assert remedy == "When the API answers again, see it with `anabranch status abc --watch`."


def test_a_job_out_of_sight_sends_to_the_doctor_while_the_stack_is_up(home: Path) -> None:
    def told() -> str:
        with pytest.raises(Unavailable) as caught, explain_unavailable("abc"):
            raise Unavailable("database.silent", "the database does not answer")
        return caught.value.remedy

    assert told().startswith("Start the stack with `anabranch up`; then see it ")
    with Home(home).locked():
        Home(home).write_stack(Stack(boot_id(), identify(os.getpid()) or Process(0, 0)))
        assert told().startswith("The stack is up: find the problem with `anabranch doctor`; ")


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("", {"bronze/uploads/a", "bronze/own.tif", "silver/own.tif"}),
        ("--bronze", {"silver/own.tif"}),
    ],
)
def test_a_purge_removes_what_the_stack_made_and_nothing_of_others(home: Path, words: str, left: set[str]) -> None:
    fill(home)
    (home / "postgres/data").mkdir(parents=True)
    assert call(f"down --purge {words} --yes".split()) == 0
    assert find_files(home) == left
    assert {path.name for path in home.iterdir() if path.is_dir()} - {"run"} == {name.split("/")[0] for name in left}


@pytest.mark.parametrize("known_by", ["this shell", "a former stack", "nobody"])
def test_a_purge_keeps_the_files_of_jobs_that_another_database_may_know_of(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], known_by: str
) -> None:
    fill(home)
    if known_by != "nobody":
        (home / "postgres/data").mkdir(parents=True)
    if known_by == "this shell":
        monkeypatch.setenv("ANABRANCH_DATABASE_URL", "postgresql://elsewhere/x")
    if known_by == "a former stack":
        run_elsewhere(Home(home))
    for _ in range(2):
        assert call(["down", "--purge", "--bronze", "--yes"]) == 0
        kept = {"silver/jobs/j/a", "silver/own.tif", "gold/jobs/j/a", "work/jobs/j"}
        assert find_files(home) - {"elsewhere"} == kept | MARKS
        told = capsys.readouterr().err
        for folder in ("work", "silver", "gold"):
            assert f"kept {home / folder}: an external database may still refer to the jobs that wrote it" in told


def test_a_home_without_files_of_jobs_forgets_a_database_elsewhere(home: Path) -> None:
    run_elsewhere(Home(home))
    assert Home(home).serves_elsewhere
    assert call(["down", "--purge", "--yes"]) == 0
    assert not Home(home).serves_elsewhere


def run_elsewhere(home: Home) -> None:
    """Run a stack with a database of others, from its start to its end."""

    def end(_: object) -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        Supervisor(home, "postgresql://elsewhere/x", [], prepare=end).run()


MARKS = {f"{area}/.anabranch/mark" for area in ("bronze", "silver", "gold", "work")}


def fill(home: Path) -> None:
    made = [*MARKS, "work/jobs/j", "cache/files/x", "scratch/1/x", "logs/api.log", "incoming/x", "bronze/.incoming/x"]
    jobs = ["silver/jobs/j/a", "gold/jobs/j/a", "silver/.incoming/x"]
    for name in (*made, *jobs, "bronze/uploads/a", "bronze/own.tif", "silver/own.tif", "anabranch.toml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()


def find_files(home: Path) -> set[str]:
    found = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    return found - {"id", "lock", "cluster.json", "anabranch.toml"}


def test_a_workflow_of_a_plugin_that_the_running_stack_lacks_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack = Stack(boot_id(), identify(os.getpid()) or Process(0, 0), plugins=(str(tmp_path / "old"), "mine"))
    Home(home).acquire()
    Home(home).write_stack(stack)
    error = NotFound("workflow.not_found", "there is no workflow 'x'")
    monkeypatch.setenv("ANABRANCH_PLUGINS", f"{tmp_path}/old,mine")
    assert explain_missing_plugins(error, Home(home)) is error
    monkeypatch.setenv("ANABRANCH_PLUGINS", f"{tmp_path}/old,{tmp_path}/new")
    explained = explain_missing_plugins(error, Home(home))
    assert explained.message.endswith(f"; the running stack was started without plugin {tmp_path}/new")


def test_tn10_a_stack_that_stays_uses_the_configured_port_if_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []

    def run(settings: Settings) -> Stack:
        ports.append(settings.port)
        return Stack(boot_id(), Process(0, 0), f"http://127.0.0.1:{settings.port}")

    monkeypatch.setattr(start, "start", run)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("ANABRANCH_PORT", str(port))
        start.start_for_command(stays=True)
    for stays in (True, False):
        start.start_for_command(stays=stays)
    assert ports == [0, port, 0]


def test_tn10_a_home_whose_own_port_was_in_use_keeps_the_one_of_its_links(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as own, socket.create_server(("127.0.0.1", 0)) as chosen:
        own_port, link_port = (one.getsockname()[1] for one in (own, chosen))

        class Configured(Settings):
            port: int = own_port

        stack = Stack(boot_id(), Process(0, 0), f"http://127.0.0.1:{link_port}")
        monkeypatch.setattr(start, "start", lambda _: stack)
        monkeypatch.setattr(start, "prepare", lambda quiet, **given: Configured(home=home, **given))
        with Home(home).locked():
            start.start_for_command(stays=True)
        capsys.readouterr()
        assert start.keep_port(Configured(home=home)).port == own_port
        assert capsys.readouterr().err == (
            f"port {link_port} of earlier links is in use by another process; the stack uses {own_port}\n"
        )
    assert start.keep_port(Configured(home=home)).port == link_port
    assert start.keep_port(Configured(home=home, port=4711)).port == 4711


def test_processes_are_ended_when_the_code_of_a_plugin_changes(home: Path, tmp_path: Path) -> None:
    (tmp_path / "plugin").mkdir()
    watcher = PluginWatcher(Home(home), [str(tmp_path / "plugin")])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        children = (Child("worker-1", identify(worker.pid) or Process(0, 0)),)
        Home(home).acquire()
        Home(home).write_stack(Stack(boot_id(), identify(os.getpid()) or Process(0, 0), children=children))
        assert not watcher.restart_if_changed()
        assert worker.poll() is None
        (tmp_path / "plugin" / "jobs.py").touch()
        assert watcher.restart_if_changed()
        assert worker.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize("is_there", [True, False])
def test_the_demo_says_how_to_find_the_command_if_it_is_not_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("activate", "anabranch"):
        (tmp_path / "bin" / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin") if is_there else "/none")
    monkeypatch.chdir(tmp_path)
    assert (". bin/activate " in find_activation()) is not is_there
