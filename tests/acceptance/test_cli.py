"""The commands against a running stack, as a user calls them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import free_port
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

PLUGIN = """
import time
from pathlib import Path
from anabranch import Job, Permanent, register_handler, register_job

@register_job
class Fails(Job):
    job_type = "fails"
    stages = [{"number": 1, "name": "only", "task_type": "fail"}]

@register_job
class Naps(Job):
    job_type = "naps"
    stages = [{"number": 1, "name": "only", "task_type": "nap"}]

@register_job
class Talks(Job):
    job_type = "talks"
    stages = [{"number": 1, "name": "only", "task_type": "talk"}]

@register_job
class Counts(Job):
    job_type = "counts"
    stages = [{"number": 1, "name": "count", "task_type": "count", "parallelism": "fixed", "count": 4}]

@register_handler("count")
def count(params: dict) -> None:
    time.sleep(1.5 - 0.4 * params["index"])
    print("counted", params["index"])

@register_job
class Announces(Job):
    job_type = "announces"
    stages = [{"number": 1, "name": "only", "task_type": "announce"}]

@register_handler("announce")
def announce(params: dict) -> None:
    print("waiting")
    while not Path(params["file"]).exists():
        time.sleep(0.01)
    print("gone")

@register_handler("talk")
def talk(params: dict) -> None:
    print("hello")

@register_handler("fail")
def fail(params: dict) -> None:
    raise Permanent("it can't be done", code="test.impossible", remedy="Do something else.")

@register_handler("nap")
def nap(params: dict) -> None:
    time.sleep(2)
"""


class Shell:
    """Calls `anabranch` with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        plugins = folder / "plugins"
        plugins.mkdir()
        (plugins / "jobs.py").write_text(PLUGIN)
        ours = {"ANABRANCH_HOME": str(self.home), "ANABRANCH_PLUGINS": str(plugins), "ANABRANCH_PORT": "0"}
        ours["ANABRANCH_CALLBACK_HOSTS"] = "127.0.0.1"
        self.environment = {n: v for n, v in os.environ.items() if not n.startswith("ANABRANCH_")} | ours

    def __call__(self, command: str, *more: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "anabranch", *command.split(), *more]
        done = subprocess.run(
            program, env=self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        assert done.returncode == code, done
        return done

    def json(self, command: str, *more: str, code: int = 0) -> Any:
        return json.loads(self(command, *more, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    shell = Shell(folder)
    try:
        shell("up --detach --workers 1")
        # The stack is ready when it takes jobs; its worker may still be on its way.
        shell("submit hello_world --wait")
        yield shell
    finally:
        shell("down --purge --yes")
        shutil.rmtree(folder)


def test_a_job_completes_and_the_same_again_is_the_same_job(shell: Shell) -> None:
    first = shell.json("submit hello_world -p n=5 --wait")
    assert first.keys() == {"job_id", "status", "result", "error", "created_at", "finished_at", "tasks"}
    assert (first["status"], first["error"]) == ("completed", None)
    assert first["tasks"] == {"total": 10, "completed": 10, "failed": 0}
    assert shell.json("submit hello_world -p n=5 --wait") == first
    assert shell("submit hello_world -p n=5").stdout.strip() == first["job_id"]


def test_many_jobs_are_submitted_from_a_file_and_bad_lines_hurt_no_others(shell: Shell) -> None:
    file = shell.home.parent / "many.ndjson"
    file.write_bytes(b'{"n": 1}\n\n{"n": "x"}\nnot JSON\n{"n": 2}\n\xff\n')
    done = shell("submit hello_world --bulk", str(file), code=5)
    told = [
        json.loads(line) for line in shell("submit hello_world --json --bulk", str(file), code=5).stdout.splitlines()
    ]

    assert [(one["line"], one["status"]) for one in told] == [(1, 200), (3, 422), (4, 422), (5, 200), (6, 422)]
    assert done.stdout.split() == [one["job_id"] for one in told if "job_id" in one]
    assert [line.partition(":")[0] for line in done.stderr.splitlines()[:3]] == ["line 3", "line 4", "line 6"]
    assert "3 of 5 lines were refused" in done.stderr
    file.write_text('{"n": 3}\n')
    assert shell("submit hello_world --rerun --bulk", str(file)).stderr == "1 jobs were submitted\n"
    again = shell("submit hello_world --bulk", str(file)).stderr
    assert again == "0 jobs were submitted, and 1 existed already\n"


def test_jobs_are_labelled_and_found_by_their_labels(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('{"n": 71}\n{"n": 72}\n')
    many = shell("submit hello_world --label batch=seven --bulk", str(file)).stdout.split()
    one = shell("submit hello_world -p n=73 --label batch=seven --label note=a=b").stdout.strip()

    newest, *others = [job["job_id"] for job in shell.json("jobs --label batch=seven")]
    assert (newest, set(others)) == (one, set(many)), "lines of one batch have no order"
    lines = shell("jobs --label batch=seven --label note=a=b").stdout.splitlines()
    assert lines[0].split() == ["JOB", "WORKFLOW", "STATUS", "AGE", "TOOK", "LABELS"]
    assert [line.split()[0] for line in lines[1:]] == [one[:12]]
    assert "labels    batch=seven, note=a=b\n" in shell(f"status {one}").stdout
    assert "is not a label" in shell("jobs --label batch", code=2).stderr


def test_a_workflow_in_yaml_runs_like_one_in_python(shell: Shell) -> None:
    job = shell.json("submit diamond -p text=x --wait")
    assert (job["status"], job["result"]) == ("completed", {"text": "X has 1 letters"})
    assert shell.json("submit weigh -p count=5 --wait")["result"] == {"items": 5, "weight": 20.0}


def test_a_workflow_that_is_added_runs_after_a_reload(shell: Shell) -> None:
    file = Path(shell.environment["ANABRANCH_PLUGINS"]) / "late.yaml"
    file.write_text('workflow_id: late\nnodes:\n  only: {handler: echo, params: {text: "{{ job.id }}"}}\n')
    shell("submit late", code=3)
    assert shell.json("workflows reload")["added"] == ["late"]
    job = shell.json("submit late --wait")
    assert job["result"] == {"only": {"text": job["job_id"]}}
    file.unlink()
    assert shell("workflows reload").stdout == "removed  late\n"


def test_a_job_is_shown_by_a_start_of_its_id(shell: Shell) -> None:
    job_id = shell.json("submit hello_world -p n=3 -p message=shown --wait")["job_id"]
    assert "6 of 6 completed" in shell(f"status {job_id[:12]}").stdout
    assert job_id in [job["job_id"] for job in shell.json("jobs --workflow hello_world --status completed")]


def test_tasks_come_in_pages_or_all_at_once(shell: Shell) -> None:
    job_id = shell.json("submit hello_world -p n=3 -p message=paged --wait")["job_id"]
    first = shell(f"tasks {job_id} --json --limit 4")
    cursor = first.stderr.rpartition("--after ")[2].strip()
    rest = shell.json(f"tasks {job_id} --after {cursor}")
    every = [json.loads(line) for line in shell(f"tasks {job_id} --all").stdout.splitlines()]
    assert [*json.loads(first.stdout), *rest] == every
    assert [(task["node"], task["index"]) for task in every] == [
        (n, i) for n in ("greeting", "reply") for i in range(3)
    ]
    assert {"parameters", "status", "attempts", "result"} <= every[0].keys()
    assert len(shell.json(f"tasks {job_id} --node reply --status completed")) == 3
    assert shell.json(f"tasks {job_id} --node reply --status failed") == []


def test_a_node_that_a_job_does_not_have_exits_3_and_names_the_nearest(shell: Shell) -> None:
    job_id = shell.json("submit hello_world -p n=3 -p message=paged --wait")["job_id"]
    for command in ("tasks", "logs"):
        said = json.loads(shell(f"{command} {job_id} --node repyl --json", code=3).stderr)
        assert (said["code"], said["remedy"]) == (
            "node.not_found",
            "Did you mean 'reply'? Its nodes are greeting, reply.",
        )


def test_a_state_that_is_none_exits_2_and_lists_those_that_are(shell: Shell) -> None:
    said = shell("jobs --status bogus", code=2).stderr
    assert "'bogus' is not one of 'pending', 'running', 'waiting'" in said
    assert "'ready', 'running'" in shell("tasks abc --status bogus", code=2).stderr


def test_events_are_a_table_a_list_or_lines(shell: Shell) -> None:
    job_id = shell.json("submit hello_world -p n=3 -p message=told --wait")["job_id"]
    every = [json.loads(line) for line in shell(f"events {job_id} --all").stdout.splitlines()]
    assert [event["kind"] for event in every][:: len(every) - 1] == ["job.submitted", "job.completed"]
    assert shell.json(f"events {job_id[:12]} --after 2") == every[2:]
    assert "node.completed" in shell(f"events {job_id}").stdout


def test_what_a_task_printed_is_shown(shell: Shell) -> None:
    job_id = shell.json("submit talks --wait")["job_id"]
    assert shell(f"logs {job_id[:12]}").stdout == "==> only 0, attempt 1 <==\nhello\n"
    (line,) = shell(f"logs {job_id} --all").stdout.splitlines()
    assert shell.json(f"logs {job_id} --node only --index 0 --attempt 1") == [json.loads(line)]
    assert shell.json(f"logs {job_id} --index 1") == []


def test_events_are_followed_to_the_end(shell: Shell) -> None:
    job_id = shell("submit counts --rerun").stdout.strip()
    followed = [json.loads(line) for line in shell(f"events {job_id[:12]} --follow --json").stdout.splitlines()]
    assert followed == [json.loads(line) for line in shell(f"events {job_id} --all").stdout.splitlines()]
    assert followed[-1]["kind"] == "job.completed"
    lines = shell(f"events {job_id} --follow --after 2").stdout.splitlines()
    assert [line.split()[1] for line in lines] == [event["kind"] for event in followed[2:]]
    assert json.loads(shell("events feed --follow --json", code=3).stderr)["code"] == "job.not_found"


def test_logs_are_followed_each_once_in_whatever_order_tasks_end(shell: Shell) -> None:
    job_id = shell("submit counts --rerun").stdout.strip()
    shown = shell(f"logs {job_id[:12]} --follow")
    lines = shown.stdout.splitlines()
    assert shown.stderr == f"job {job_id} completed\n"
    assert sorted(line for line in lines if "counted" in line) == [f"counted {index}" for index in range(4)]
    followed = [json.loads(line) for line in shell(f"logs {job_id} -f --json --index 2").stdout.splitlines()]
    assert followed == shell.json(f"logs {job_id} --index 2")


def test_tn7_lines_are_followed_while_their_task_runs(shell: Shell, tmp_path: Path) -> None:
    job_id = shell(f"submit announces -p file={tmp_path}/go").stdout.strip()
    program = [sys.executable, "-m", "anabranch", "logs", job_id, "-f"]
    with subprocess.Popen(program, env=shell.environment, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert [following.stdout.readline() for _ in range(2)] == ["==> only 0, attempt 1 <==\n", "waiting\n"]
        assert shell.json(f"status {job_id}")["status"] == "running"
        (tmp_path / "go").touch()
        assert following.stdout.read() == "gone\n"


def test_a_bundle_is_written_to_a_file(shell: Shell, tmp_path: Path) -> None:
    failed = shell("submit fails").stdout.strip()
    file = tmp_path / "why.zip"
    assert shell(f"logs {failed[:12]} --bundle {file}").stdout == f"{file}\n"
    with zipfile.ZipFile(file) as bundle:
        assert b"test.impossible" in bundle.read("events.jsonl")


def test_a_status_is_watched_to_the_end(shell: Shell) -> None:
    job_id = shell("submit naps --rerun -p watched=1").stdout.strip()
    done = shell(f"status {job_id[:12]} --watch")
    assert "only: completed 1/1" in done.stderr
    assert "1 of 1 completed" in done.stdout
    assert shell.json(f"status {job_id} --watch")["status"] == "completed"

    failed = shell("submit fails").stdout.strip()
    assert shell.json(f"status {failed} --watch", code=7)["status"] == "failed"

    late = shell("submit naps --rerun -p watched=1").stdout.strip()
    shell(f"status {late} --timeout 0.1", code=8)


def test_following_ends_when_it_is_interrupted(shell: Shell) -> None:
    job_id = shell("submit naps --rerun -p watched=1").stdout.strip()
    program = [sys.executable, "-m", "anabranch", "events", job_id, "--follow"]
    following = subprocess.Popen(program, env=shell.environment, stdout=subprocess.PIPE, text=True)
    assert following.stdout is not None
    assert "job.submitted" in following.stdout.readline()
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=PATIENCE_SECONDS)
    assert following.returncode == 130


def test_a_job_is_drawn_with_its_states(shell: Shell) -> None:
    job_id = shell.json("submit diamond -p text=drawn --wait")["job_id"]
    assert "✓ left" in shell(f"status {job_id} --graph").stdout
    assert {node["status"] for node in shell.json(f"status {job_id} --graph")["nodes"]} == {"completed"}


def test_the_live_processes_are_listed(shell: Shell) -> None:
    workers = shell.json("workers")
    assert sorted(worker["kind"] for worker in workers) == ["api", "orchestrator", "worker"]
    assert {"id", "kind", "host", "pid", "queues", "slots", "running", "waiting", "last_beat"} <= workers[0].keys()


def test_a_second_up_says_where_the_first_runs(shell: Shell) -> None:
    url = shell.json("config show")["api_url"]
    for command in ("up", "up --detach"):
        said = shell(command, code=6).stderr
        assert url in said
        assert str(shell.home) in said


def test_a_failed_job_exits_7_with_the_reason(shell: Shell) -> None:
    done = shell("submit fails --wait --json", code=7)
    job = json.loads(done.stdout)
    assert (job["status"], job["error"]["code"]) == ("failed", "test.impossible")
    assert json.loads(done.stderr)["remedy"] == "Do something else."


def test_a_job_that_takes_too_long_exits_8_and_goes_on(shell: Shell) -> None:
    done = shell("submit naps --timeout 0.2 --json", code=8)
    assert json.loads(done.stdout)["status"] in ("pending", "running")
    assert json.loads(done.stderr)["code"] == "job.timed_out"
    assert shell.json("submit naps --wait")["status"] == "completed"


def test_a_wait_that_is_interrupted_says_that_the_job_goes_on(shell: Shell) -> None:
    program = [sys.executable, "-m", "anabranch", "submit", "naps", "--rerun", "--wait"]
    waiting = subprocess.Popen(program, env=shell.environment, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    assert "running" in waiting.stderr.readline()
    waiting.send_signal(signal.SIGINT)
    said = waiting.communicate(timeout=PATIENCE_SECONDS)[1]
    assert waiting.returncode == 130
    assert "continues" in said
    see, end = said.split("`")[1::2]
    assert see.startswith("anabranch status ")
    assert shell.json(see.removeprefix("anabranch "))["status"] in ("running", "completed")
    assert end == see.replace("status", "cancel")


def test_status_without_a_job_shows_the_stack_and_logs_without_lines_say_why(shell: Shell) -> None:
    assert "database" in shell("status").stdout
    assert shell.json("status")["components"]["database"]["status"] == "ok"
    assert "need a job" in shell("status --watch", code=2).stderr
    job_id = shell.json("submit naps --rerun --wait")["job_id"]
    assert "no task of the job printed anything" in shell(f"logs {job_id}").stderr
    assert "there is no such output" in shell(f"logs {job_id} --failed").stderr


def test_a_submission_after_a_failed_job_says_how_to_retry_that(shell: Shell) -> None:
    job = json.loads(shell("submit fails --rerun --wait --json", code=7).stdout)["job_id"][:12]
    assert f"`anabranch retry {job}`" in shell("submit fails").stderr
    assert "test.impossible, raised at jobs.py:" in shell(f"status {job}").stdout
    refused = shell(f"dead-letters replay {job}", code=6)
    assert f"job {job} has a newer one of the same parameters" in refused.stdout
    assert "1 of 1 jobs were not replayed" in refused.stderr


def test_a_job_is_cancelled_once(shell: Shell) -> None:
    job_id = shell("submit naps --rerun").stdout.strip()
    job = shell.json(f"cancel {job_id[:12]} --reason", "a typo")
    assert (job["status"], job["error"]["message"]) == ("cancelled", "a typo")
    assert json.loads(shell(f"cancel {job_id} --json", code=6).stderr)["code"] == "job.ended"


def test_a_file_is_uploaded_and_its_address_passed(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "dem.tif").write_bytes(b"x")
    job = shell.json(f"submit echo -p message=@{tmp_path}/dem.tif --wait")
    address = job["result"]["message"]
    assert address.startswith("bronze://uploads/2d711642b726b04401627ca9fbac32f5")
    assert (shell.home / "bronze" / address.removeprefix("bronze://")).read_bytes() == b"x"
    shell(f"submit echo -p message=@{tmp_path}/none", code=5)


def test_sidecars_go_with_the_raster_that_they_belong_to(shell: Shell, tmp_path: Path) -> None:
    for name in ("a.tif", "a.tfw", "a.prj", "b.tif"):
        (tmp_path / name).write_text(name)
    rows = shell.json(f"submit process_raster -p source=@{tmp_path} -p dry_run=true --wait")
    assert [Path(row["file"]).name for row in rows] == ["a.tif", "b.tif"]
    plans = [shell.json(f"status {row['job_id']}")["result"]["plan"] for row in rows]
    kinds = [sorted(sidecar["kind"] for sidecar in plan["sidecars"]) for plan in plans]
    assert kinds == [["prj", "world"], []]


@pytest.mark.parametrize("command", ["submit", "run"])
def test_tn11_nothing_is_uploaded_for_a_job_with_mistakes_and_all_of_them_are_reported(
    shell: Shell, tmp_path: Path, command: str
) -> None:
    (tmp_path / "dem.txt").write_bytes(b"never uploaded")
    wrong = f"-p source=@{tmp_path}/dem.txt -p mask=@{tmp_path}/none -p colection=a -p profile=5 -p datetime=soon"
    said = json.loads(shell(f"{command} process_raster {wrong} --priority 12 --json", code=5).stderr)["message"]
    parts = (
        "dem.txt has the extension .txt",
        "no file",
        "did you mean 'collection'",
        "profile: must be",
        "datetime: is refused",
    )
    assert [part for part in (*parts, "priority") if part not in said] == []
    assert not list((shell.home / "bronze").rglob("dem.txt"))


def test_tn8_a_job_is_submitted_for_each_file_of_a_folder_or_a_pattern(shell: Shell, tmp_path: Path) -> None:
    for name in ("a.tif", "b.tif", "c.txt", ".hidden"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    rows = shell.json(f"submit echo -p message=@{tmp_path} --wait")
    assert [(Path(row["file"]).name, row["status"]) for row in rows] == [
        ("a.tif", "completed"), ("b.tif", "completed"), ("c.txt", "completed"),
    ]  # fmt: skip
    assert shell.json(f"status {rows[1]['job_id']}")["result"]["message"].endswith("/b.tif")

    shown = shell(f"submit echo -p message=@{tmp_path}/*.tif").stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["FILE", "JOB", "STATUS"],
        *([row["file"], row["job_id"][:12], "completed"] for row in rows[:2]),
    ]


def test_files_that_are_refused_or_fail_are_in_the_table_and_in_the_exit_code(shell: Shell, tmp_path: Path) -> None:
    for name in ("a.tif", "b.tif"):
        (tmp_path / name).write_text(name)
    failed = shell(f"submit fails -p source=@{tmp_path} --wait --json", code=7)
    assert [row["error"]["code"] for row in json.loads(failed.stdout)] == ["test.impossible"] * 2
    assert json.loads(failed.stderr)["code"] == "files.failed"
    refused = shell(f"submit hello_world -p n=@{tmp_path}", code=5)
    assert [line.split()[2] for line in refused.stdout.splitlines()] == ["STATUS", "refused", "refused"]
    assert "2 of 2 files were refused" in refused.stderr
    assert f"{tmp_path}/b.tif was refused: n must be an integer" in refused.stderr


def test_a_line_of_many_jobs_names_files_to_upload(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "dem.tif").write_bytes(b"x")
    lines = ({"message": f"@{tmp_path}/dem.tif"}, {"message": "@@text"}, {"message": f"@{tmp_path}/none"})
    (tmp_path / "jobs").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = shell(f"submit echo --bulk {tmp_path}/jobs", code=5)
    sent = [shell.json(f"status {job_id} --watch")["result"]["message"] for job_id in done.stdout.split()]
    assert sent == [f"bronze://uploads/{sha256(b'x').hexdigest()}/dem.tif", "@text"]
    assert "line 3: message: there is no file" in done.stderr


def test_text_stays_text_where_text_is_declared(shell: Shell) -> None:
    result = shell.json("submit hello_world -p n=1 -p message=5 --wait")["result"]
    assert result["reply"]["items"] == [{"reply": "Replying to: 5 from task 0"}]


@pytest.mark.parametrize(
    ("command", "code"),
    [("submit nothing_of_ours", 3), ("status feed", 3), ("tasks feed", 3), ("submit hello_world -p n=0", 5)],
)
def test_what_is_missing_or_wrong_has_its_exit_code(shell: Shell, command: str, code: int) -> None:
    assert shell(command, code=code).stderr.startswith("error: ")


def test_the_demo_runs_again_and_again(shell: Shell) -> None:
    for told in (shell("demo").stdout, shell("demo").stdout):
        assert [line for line in told.splitlines() if line.endswith(("completed", "failed"))] == [
            "dem.tif: completed",
            "scene.tif: completed",
            "landcover.tif: completed",
            "broken.tif: failed",
            "channels.geojson: completed",
        ]


def test_run_uses_the_stack_that_is_up_and_leaves_it(shell: Shell) -> None:
    assert shell.json("run hello_world -p n=2 --rerun")["tasks"]["completed"] == 4
    assert shell.json("config show")["api_url"]


def test_the_database_is_what_the_files_say(shell: Shell) -> None:
    assert shell.json("db check") == []
    assert shell.json("db status")["current"] is True
    migrated = shell.json("db migrate")
    assert (migrated["migrations"], migrated["redeployed"], migrated["catalog"]["current"]) == ([], False, True)


def test_the_doctor_finds_nothing_wrong(shell: Shell) -> None:
    found = shell.json("doctor")
    assert found["ok"] is True
    checks = {check["check"]: check for check in found["checks"]}
    assert checks.keys() >= {"python", "packages", "children", "isolation", "settings", "postgresql", "home", "port"}
    assert checks.keys() >= {
        "plugins",
        "stack",
        "database",
        "migrations",
        "schema",
        "budget",
        "clock",
        "api",
        "workers",
    }
    assert [check for check in checks.values() if check["status"] == "fail"] == []
    assert "1 with 2 slots" in checks["workers"]["message"]


def test_a_status_of_a_real_job_imports_nothing_heavy(shell: Shell) -> None:
    job_id = shell("submit hello_world").stdout.strip()
    program = [sys.executable, "-X", "importtime", "-m", "anabranch", "status", job_id]
    said = subprocess.run(program, env=shell.environment, capture_output=True, text=True, check=True).stderr
    imported = {line.rpartition("|")[2].strip() for line in said.splitlines()}
    assert "httpcore" in imported
    assert (
        imported & {"fastapi", "uvicorn", "psycopg", "rich", "structlog", "pydantic_settings", "anabranch.app"} == set()
    )


def test_no_process_has_the_database_url_on_its_command_line(shell: Shell) -> None:
    url = shell("db url").stdout.strip().encode()
    lines = [Path(f"/proc/{worker['pid']}/cmdline").read_bytes() for worker in shell.json("workers")]
    assert len(lines) == 3
    assert [line for line in lines if url in line] == []


def complete(shell: Shell, words: str) -> list[str]:
    """What bash would offer for the last of the words."""
    asked = {"_ANABRANCH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = subprocess.run(
        [Path(sys.executable).with_name("anabranch")],
        env={**shell.environment, **asked}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.split()


def test_a_shell_completes_commands_states_workflows_and_jobs(shell: Shell) -> None:
    job_id = shell("submit hello_world -p message=completed").stdout.strip()
    assert complete(shell, "anabranch sta") == ["status"]
    assert complete(shell, "anabranch jobs --status comp") == ["completed"]
    assert complete(shell, "anabranch submit hello_") == ["hello_world"]
    assert complete(shell, f"anabranch status {job_id[:8]}") == [job_id[:12]]


def test_webhooks_are_added_tested_rotated_replayed_and_removed(shell: Shell) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    made = shell.json("webhooks add", url, "--event", "release.*", "--cloudevents")
    endpoint, secrets = made["id"], ["--secret", made["secret"]]
    assert url in shell("webhooks list").stdout
    failed = shell("webhooks test", endpoint, code=9)
    assert "the connection failed" in failed.stderr

    rotated = shell("webhooks rotate", endpoint, "--keep-hours", "1").stdout.strip()
    assert rotated.startswith("whsec_")
    (delivery,) = shell.json("webhooks deliveries --status pending --event webhook.test")
    listening = [sys.executable, "-m", "anabranch", "webhooks", "listen", "--port", str(port), "--count", "2", *secrets]
    with subprocess.Popen(listening, env=shell.environment, stdout=subprocess.PIPE, text=True) as receiver:
        with suppress(AssertionError):  # the receiver may not listen yet; the first is retried in seconds
            shell("webhooks test", endpoint)
        received = [json.loads(line) for line in receiver.communicate(timeout=PATIENCE_SECONDS)[0].splitlines()]
    assert {one["data"]["type"] for one in received} == {"webhook.test"}
    assert shell("webhooks replay", delivery["id"]).stdout == f"delivery {delivery['id']} is due again\n"
    assert "0 deliveries are due again" in shell("webhooks replay --event none.such").stdout
    assert shell("webhooks change --inactive", endpoint).stdout == f"endpoint {endpoint} is inactive\n"
    assert "webhooks change ENDPOINT --active" in shell("webhooks replay", delivery["id"], code=6).stderr
    assert shell("webhooks change --active", endpoint).stdout == f"endpoint {endpoint} is active\n"

    assert "add --yes" in shell("webhooks remove", endpoint, code=2).stderr
    assert shell("webhooks remove --yes", endpoint).stdout == f"removed {endpoint}\n"
    assert shell("webhooks test", endpoint, code=3).stderr
