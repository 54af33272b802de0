"""Processes of the oldest release that is supported, while a newer one changes the database under them."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import httpx
import psycopg
import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.migrate import migrate, redeploy, status
from anabranch.cli.main import call
from tests.support.crew import Crew, Start, audit, open_stage
from tests.support.server import free_port
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).parents[2]
PLUGINS = Path(__file__).parent / "plugins"
RELEASE = "src/anabranch/adapters/postgres/release.txt"


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def find_oldest_supported() -> str:
    """The last commit of the oldest release whose processes may use our schema."""
    known = Files().release
    assert known.oldest < known.number, "a release that only its own processes can share leaves no upgrade to test"
    commits = git("log", "--format=%H", "--", RELEASE).decode().split()
    for commit in commits:
        said = re.search(r"^release (\d+)", git("show", f"{commit}:{RELEASE}").decode(), re.MULTILINE)
        if said and int(said[1]) <= Files().release.oldest:
            return commit
    return f"{commits[-1]}^" if commits else "HEAD"  # the first release had no number


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The source of that release."""
    try:
        archive = git("archive", find_oldest_supported(), "src")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this checkout has no git history to take the older release from")
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        packed.extractall(tmp_path / "older", filter="data")
    return tmp_path / "older" / "src"


def migrate_as(source: Path, url: str) -> None:
    code = "import sys; from anabranch.adapters.postgres.schema.migrate import migrate; migrate(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    subprocess.run([sys.executable, "-P", "-c", code, url], env=environment, check=True)


def upgrade(url: str) -> None:
    """Migrate, and make all functions again, also where none of them changed."""
    migrate(url)
    redeploy(url)


@pytest.mark.slow
@pytest.mark.campaign
async def test_a8_jobs_of_an_older_release_s_processes_survive_an_upgrade_under_them(
    seed: int, empty_database_url: str, older: Path, tmp_path: Path
) -> None:
    """They run on before, during and after the migration, and hand over to processes of the new release.

    The seed decides when the upgrade hits, and in which order and by which signal the older processes end.
    """
    chance = random.Random(seed)
    migrate_as(older, empty_database_url)
    port, notes = free_port(), tmp_path / "notes"
    notes.touch()
    (tmp_path / "first").mkdir()
    crew = Crew(Start(tmp_path / "first", PLUGINS, empty_database_url, source=older))

    def ended() -> int:
        return sum(line.startswith("ended") for line in notes.read_text().splitlines())

    async def submit(client: httpx.AsyncClient, numbers: range) -> list[str]:
        given = {"notes": str(notes), "quick": 60, "plain": 4, "heavy": 1, "pause": 0.02}
        answers = [await client.post("/api/jobs/submit/mixed", json={**given, "n": number}) for number in numbers]
        assert {answer.status_code for answer in answers} <= {200, 202}, [answer.text for answer in answers]
        return [answer.json()["job_id"] for answer in answers]

    try:
        members = [crew.start("orchestrator"), crew.start("worker"), crew.start("api", port=port)]
        await wait_until_async(lambda: _is_ready(port), "an answer of the older API")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
            jobs = await submit(client, range(4))
            begun = chance.randrange(1, 200)
            await wait_until_async(lambda: ended() >= begun, "some work")
            migrating = asyncio.create_task(asyncio.to_thread(upgrade, empty_database_url))
            jobs += await submit(client, range(4, 8))
            await migrating
            jobs += await submit(client, range(8, 12))
            (tmp_path / "second").mkdir()
            (tmp_path / "second" / "home").symlink_to(tmp_path / "first" / "home")  # the same tiers
            async with open_stage(Start(tmp_path / "second", PLUGINS, empty_database_url)) as stage:
                await stage.finish(*jobs)  # the older ones end them alone
                await stage.crew.start_ready("orchestrator", "worker")
                more = await submit(client, range(12, 16))
                for member in chance.sample(members, len(members)):
                    assert member.process.poll() is None, member.log.read_text()
                    member.process.send_signal(chance.choice([signal.SIGTERM, signal.SIGKILL]))
                    await asyncio.sleep(chance.random() / 2)
                for member in members:
                    assert await member.ended() in (0, -signal.SIGTERM, -signal.SIGKILL)
                await stage.finish(*more)
                assert stage.query("select state, count(*) from app.jobs group by 1") == [("completed", 16)]
                assert stage.query("select max(failures) from app.outcomes") == [(0,)]
                assert audit(empty_database_url) == []
    finally:
        crew.close()
    assert ended() >= 16 * 65
    assert status(empty_database_url).current


@pytest.fixture
def previous(tmp_path: Path) -> Iterator[Path]:
    """The source of the commit before this one, in a working tree of its own."""
    tree = tmp_path / "previous"
    try:
        git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD^")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this checkout has no git history to take the previous commit from")
    yield tree / "src"
    git("worktree", "remove", "--force", str(tree))


@pytest.mark.slow
async def test_a8_a_rolling_upgrade_from_the_previous_commit_loses_nothing(
    empty_database_url: str, previous: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/howto/backup.md says: look, upgrade while the old processes work, replace them one by one."""
    migrate_as(previous, empty_database_url)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "second" / "home").symlink_to(tmp_path / "first" / "home")  # the same tiers
    crew = Crew(Start(tmp_path / "first", PLUGINS, empty_database_url, source=previous))
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", empty_database_url)
    try:
        old = await crew.start_ready("orchestrator", "worker")
        assert call(["upgrade", "--check"]) == 0, "raise `oldest` only in a commit that says why"
        assert await asyncio.to_thread(call, ["upgrade"]) == 0
        async with open_stage(Start(tmp_path / "second", PLUGINS, empty_database_url)) as stage:
            jobs = [await stage.submit("mixed", n=n, quick=60, plain=4, heavy=1, pause=0.02) for n in range(4)]
            await stage.reach(jobs[0], 1)
            await stage.crew.start_ready("orchestrator", "worker")
            for member in old:
                member.send(signal.SIGTERM)
                assert await member.ended() == 0
            await stage.finish(*jobs)
            assert stage.query("select max(failures), max(crashes) from app.outcomes") == [(0, 0)]
    finally:
        crew.close()
    assert status(empty_database_url).current


LIST_STATEMENTS = """
import json
from pathlib import Path
import anabranch
from anabranch.adapters.postgres.database import call_text
from anabranch.adapters.postgres.schema.files import FUNCTIONS, read_queries
code = [path.read_text() for path in Path(anabranch.__file__).parent.rglob("*.py")]
functions = [path.stem for path in FUNCTIONS.rglob("*.sql")]
named = [name for name in functions if name != "now" and any(f'"{name}"' in text for text in code)]
print(json.dumps({**{name: call_text(name) for name in named}, **read_queries()}))
"""


def test_a8_statements_of_the_oldest_release_can_still_be_run(database_url: str, older: Path) -> None:
    """Its calls name the arguments that its own files have, and its queries the columns that its tables had."""
    environment = {**os.environ, "PYTHONPATH": str(older)}
    printed = subprocess.run([sys.executable, "-P", "-c", LIST_STATEMENTS], env=environment, check=True, stdout=-1)
    statements: dict[str, str] = json.loads(printed.stdout)
    assert {"claim", "report", "submit", "jobs", "vitals"} <= statements.keys()
    refused = {}
    with connect(database_url, None) as connection:
        for name, text in statements.items():
            names = dict.fromkeys(re.findall(r"%\((\w+)\)s", text))
            try:
                connection.execute(f"explain {text}".encode(), names or [None] * text.replace("%%", "").count("%s"))
            except psycopg.errors.UndefinedTable as error:
                if "pgstac" not in str(error):
                    refused[name] = str(error)
            except psycopg.Error as error:
                refused[name] = str(error)
    assert refused == {}


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
