"""Handlers have storage and the database wherever they run, and their environment has no secret."""

import hashlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from anabranch.adapters.objects.tiers import Place, open_storage
from anabranch.adapters.postgres.handler_connections import ACTIVE_CONNECTIONS, IDLE_SECONDS
from anabranch.adapters.postgres.store.objects.marks import PostgresMarks
from anabranch.app import handler_resources, open_tiers
from anabranch.canonical import Json
from anabranch.engine.read_models import TaskDetail
from anabranch.errors import AnabranchError
from anabranch.settings import Settings, load_settings, origins
from anabranch.storage.attempt_keys import parse_key
from anabranch.storage.marks import adopt_storage
from tests.support.crew import Start, open_stage
from tests.support.objects import Cloud
from tests.support.stack import Stack

pytestmark = pytest.mark.postgres
PLUGINS = str(Path(__file__).parent.parent / "data" / "plugins")
KINDS = ["plain", "heavy", "quick", "async"]
SECRET = "hunter2hunter2"
ROLE = """
    do $$ begin create role anabranch_geo nologin; exception when duplicate_object or unique_violation then end $$;
"""


async def tasks(stack: Stack, kinds: list[str], **params: Json) -> list[TaskDetail]:
    job = await stack.run("stores", kinds=list[Json](kinds), **params)
    return sorted(await stack.tasks(job, "act"), key=lambda task: kinds.index(str(task.index)))


async def test_w7_every_kind_of_handler_fetches_and_puts_under_its_attempt(stack: Stack, tmp_path: Path) -> None:
    stack.gateway.storage.put("bronze://raw/in.txt", b"raw")
    for task in await tasks(stack, KINDS, source="bronze://raw/in.txt", sha256=hashlib.sha256(b"raw").hexdigest()):
        assert isinstance(task.result, dict), task.error
        key = parse_key(str(task.result.pop("address")).removeprefix("gold://"))
        assert key is not None
        assert (key.node, key.index, key.attempt, key.name) == ("act", task.index, 1, "out/made.txt")
        digest = hashlib.sha256(b"RAW").hexdigest()
        assert task.result == {"size": 3, "sha256": digest, "media_type": "text/plain", "name": "in.txt"}
        assert (tmp_path / "gold" / str(key)).read_bytes() == b"RAW"
    assert not list((tmp_path / "scratch").rglob("made.txt"))


async def test_what_can_not_be_fetched_is_told_by_its_code(stack: Stack) -> None:
    stack.gateway.storage.put("bronze://in.txt", b"raw")
    for params, code in (
        ({"source": "bronze://no.txt"}, "storage.not_found"),
        ({"source": "bronze://../../etc/passwd"}, "storage.path"),
        ({"source": "tin://x"}, "storage.tier"),
        ({"source": "bronze://in.txt", "sha256": "0" * 64}, "storage.checksum"),
    ):
        (task,) = await tasks(stack, ["plain"], **params)
        assert task.error is not None
        assert task.error.code == code
        assert task.attempts == 1


async def test_handlers_list_what_there_is(stack: Stack) -> None:
    stack.gateway.storage.put("silver://a/b", b"x")
    (task,) = await tasks(stack, ["plain"], folder="silver://a")
    assert task.result == [["a/b", 1]]


async def test_handlers_have_short_bursts_of_the_database_in_a_role_of_their_own(
    stack: Stack, database_url: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(ROLE)
    asked = "select current_user, current_setting('statement_timeout'), current_setting('search_path')"
    for task in await tasks(stack, KINDS, sql=asked):
        assert task.result == ["anabranch_geo", "1min", "geo,public"], task.error


def test_a_burst_that_the_server_breaks_off_may_be_tried_again(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(ROLE)
    burst = handler_resources(Settings(home=tmp_path), database_url, tmp_path).database
    with pytest.raises(AnabranchError) as caught, burst() as connection:
        connection.execute("set local statement_timeout = 10; select pg_sleep(5)")
    assert (caught.value.code, caught.value.category) == ("database.interrupted", "transient")


def test_a_burst_commits_at_its_end_and_not_by_an_exception(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(ROLE)
        owner.execute("create table public.noted (what text)")
        owner.execute("grant insert on public.noted to public")
        burst = handler_resources(Settings(home=tmp_path), database_url, tmp_path).database
        with burst() as connection:
            connection.execute("insert into noted values ('kept')")
        with pytest.raises(psycopg.errors.DivisionByZero), burst() as connection:
            connection.execute("insert into noted values ('lost'); select 1 / 0")
        assert owner.execute("select what from public.noted").fetchall() == [("kept",)]


def test_e19_few_of_a_worker_have_a_connection_at_once(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(ROLE)
    burst = handler_resources(Settings(home=tmp_path), database_url, tmp_path).database
    inside: set[int] = set()

    def count(number: int) -> int:
        with burst():
            inside.add(number)
            most = len(inside)
            inside.remove(number)
            return most

    with ThreadPoolExecutor(8) as threads:
        assert max(threads.map(count, range(24))) <= ACTIVE_CONNECTIONS


def test_a_connection_is_kept_for_the_next_burst_with_nothing_of_the_last(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(ROLE)
        burst = handler_resources(Settings(home=tmp_path), database_url, tmp_path).database
        with burst() as connection:
            first = connection.info.backend_pid
            connection.execute("set search_path = elsewhere; set statement_timeout = '50s'")
            connection.execute("select pg_advisory_lock(7)")
        for _ in range(8):  # psycopg prepares what it runs often
            with burst() as connection:
                connection.execute("select 1")
        with burst() as connection:
            assert connection.info.backend_pid == first
            (path, timeout, role, idle) = connection.execute(
                "select current_setting('search_path'), current_setting('statement_timeout'), current_user,"
                " extract(epoch from current_setting('idle_session_timeout')::interval)"
            ).fetchone()
            assert (path, timeout, role) == ("geo,public", "1min", "anabranch_geo")
            assert idle > IDLE_SECONDS
            held = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"
            assert owner.execute(held, [first]).fetchone() == (0,)


def test_a_kept_connection_that_broke_is_not_given_again(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(ROLE)
        burst = handler_resources(Settings(home=tmp_path), database_url, tmp_path).database
        with burst() as connection:
            first = connection.info.backend_pid
        owner.execute("select pg_terminate_backend(%s, 5000)", [first])
        with burst() as connection:
            second = connection.info.backend_pid
        with pytest.raises(psycopg.errors.DivisionByZero), burst() as connection:
            connection.execute("select 1 / 0")
        with burst() as connection:
            assert len({first, second, connection.info.backend_pid}) == 3


async def test_s5_the_environment_of_handlers_holds_no_secret(database_url: str, tmp_path: Path, s3: Cloud) -> None:
    """A real worker takes its secrets from the environment, and its handlers have what they allow by other ways."""
    storage = open_storage([Place("bronze", s3.url, s3.options)], tmp_path)
    storage.put("bronze://in.txt", b"raw")
    options = json.dumps({**s3.options, "session_token": SECRET})
    async with open_stage(Start(tmp_path, Path(PLUGINS), database_url)) as stage:
        adopt_storage(storage, {"bronze": s3.url}, PostgresMarks(database_url))
        await stage.crew.start_ready("worker", storage__bronze=s3.url, storage__options=options)
        for params in ({"source": "bronze://in.txt"}, {"environment": SECRET}, {"environment": "postgresql://"}):
            job = await stage.complete(await stage.submit("stores", kinds=KINDS, **params))
            for task in await stage.tasks(job, "act"):
                assert task.result == [] or (isinstance(task.result, dict) and task.result["size"] == 3), task


def test_s5_equipment_travels_and_shows_nothing(tmp_path: Path, s3: Cloud) -> None:
    options = json.dumps({**s3.options, "silver": {"secret_access_key": SECRET}})
    settings = Settings(home=tmp_path, storage={"silver": s3.url, "options": options})  # type: ignore[arg-type]  # as in a file
    resources = handler_resources(settings, f"postgresql://user:{SECRET}@host/name", tmp_path / "scratch")
    assert resources.storage.list("silver://") == ()
    again = pickle.loads(pickle.dumps(resources))
    again.storage.put("silver://a", b"x")
    assert again.storage.read("silver://a") == b"x"
    assert SECRET in str(settings.storage.options_of("silver"))
    shown = [settings, settings.storage, resources, vars(resources), resources.storage, list(origins(settings))]
    assert SECRET not in repr(shown)


@pytest.mark.parametrize("text", [SECRET, f'["{SECRET}"]', f'{{"a": ["{SECRET}"]}}', f'{{"{SECRET}'])
def test_s5_options_that_can_not_be_read_are_not_shown(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_STORAGE__OPTIONS", text)
    with pytest.raises(AnabranchError) as caught:
        load_settings(home=tmp_path)
    assert caught.value.code == "settings.invalid"
    assert "ANABRANCH_STORAGE__OPTIONS" in caught.value.message
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


def test_options_come_from_a_variable_or_a_table_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anabranch.toml").write_text(
        '[storage.options]\naccess_key_id = "a"\nallow_http = true\n[storage.options.gold]\naccess_key_id = "b"\n'
    )
    storage = load_settings(home=tmp_path).storage
    assert storage.options_of("silver") == {"access_key_id": "a", "allow_http": True}
    assert storage.options_of("gold") == {"access_key_id": "b", "allow_http": True}
    monkeypatch.setenv("ANABRANCH_STORAGE__OPTIONS", '{"region": "x"}')
    assert load_settings(home=tmp_path).storage.options_of("gold")["region"] == "x"


def test_a_stack_whose_tiers_are_in_clouds_keeps_uploads_there(s3: Cloud, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, storage={"bronze": s3.url, "options": json.dumps(dict(s3.options))})  # type: ignore[arg-type]
    intake = open_tiers(settings).tier("bronze").begin()
    intake.write(b"raw")
    assert intake.keep("uploads/x/in.txt")
    intake.discard()
    assert open_tiers(settings).read("bronze://uploads/x/in.txt") == b"raw"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
