"""A stack of real processes that a test starts, hurts and ends, and exact accounts of what became of its jobs."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.store.invariants import examine
from anabranch.embedded.processes import end, marked
from anabranch.engine.model import TERMINAL_STATES, JobState
from anabranch.engine.read_models import JobDetail, TaskDetail
from anabranch.engine.submitting.submission import Order
from anabranch.errors import Unavailable
from anabranch.gateway import Gateway
from anabranch.settings import Settings
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async
from tests.support.warm import WarmProcess, start_warm

__all__ = ["STEADY_LEASE", "Crew", "Member", "Stage", "Start", "audit", "open_stage"]

STEADY_LEASE = 30.0  # seconds, of a session that must not be lost, however busy the machine is


# Each finds what must not be there when every job has ended, beside what must never be there.
FAULTS = {
    "a job that did not end": "select job_id, state from app.jobs where state in ('pending', 'running', 'waiting')",
    "a claim": "select lane, idx, attempt, session from app.claims",
    "a child job that nobody reported for": "select job, lane, idx, ended_at from app.children",
    "a task that is due": "select d.* from app.due d join app.lanes l on l.id = d.lane where not l.closed",
    "a right": "select id, job, node, session from app.rights",
    "a lane that did not end": """
        select l.id, l.node, l.purpose, l.width, l.next_index, l.running, l.remaining
          from app.lanes l join app.jobs j on j.id = l.job and j.state = 'completed'
         where not l.closed or l.next_index <> l.width or l.running <> 0 or l.remaining <> 0""",
    "a node that moved twice": """
        select e.job, e.node, e.kind, count(*) from app.events e join app.jobs j on j.id = e.job and j.generation = 0
         where e.kind like 'node.%' group by e.job, e.node, e.kind having count(*) > 1""",
    "a node that did not complete": """
        select n.job, n.name, n.state from app.nodes n join app.jobs j on j.id = n.job
         where j.state = 'completed' and n.state <> 'completed'""",
}  # fmt: skip


def connect_patiently(url: str) -> psycopg.Connection[TupleRow]:
    """Connect to a server that may just come up again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return psycopg.connect(url)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def audit(url: str) -> list[str]:
    """What is wrong in a database where every job has ended; nothing, if the engine kept its word."""
    try:
        return _audit(url)
    except psycopg.OperationalError:  # the server may go down once more
        return _audit(url)


def _audit(url: str) -> list[str]:
    with connect_patiently(url) as connection:
        found = [str(violation) for violation in examine(connection)]
        left = [f"{what}: {row}" for what, query in FAULTS.items() for row in connection.execute(query.encode())]
    return found + left


class Member:
    """One process of a crew."""

    def __init__(self, role: str, process: "WarmProcess | subprocess.Popen[bytes]", log: Path) -> None:
        """Just started; its log is JSON lines."""
        self.role = role
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def send(self, signum: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self.process.send_signal(signum)

    def kill(self) -> None:
        """Kill -9, and see it gone."""
        self.process.kill()
        self.process.wait()

    def said(self, event: str) -> list[dict[str, Any]]:  # JSON of any shape
        """The whole lines of its log with this event; a full disk cuts one off."""
        lines = (line for line in self.log.read_text().splitlines() if line.startswith("{") and line.endswith("}"))
        return [said for line in lines if event in line and (said := json.loads(line)).get("event") == event]

    async def started(self, sessions: int = 1) -> None:
        """Wait until it has begun this many sessions."""
        await wait_until_async(
            lambda: len(self.said("session.began")) >= sessions or self.process.poll() is not None, what="a session"
        )
        assert self.process.poll() is None, self.log.read_text()

    async def ended(self) -> int:
        """Wait until it has ended; its exit code."""
        await wait_until_async(lambda: self.process.poll() is not None, f"the end of {self.role}")
        return self.process.wait()


@dataclass(frozen=True)
class Start:
    """How processes are started: where they write, what they load, and the database they use.

    With a `source`, they are of another release, whose code is there.
    """

    folder: Path
    plugins: Path | str  # several are separated by commas
    url: str
    lease: float = 3
    source: Path | None = None


class Crew:
    """Workers and orchestrators, started and ended one by one."""

    def __init__(self, start: Start) -> None:
        """Nothing is started yet."""
        self._start = start
        self.members: list[Member] = []
        (start.folder / "logs").mkdir()

    def start(self, role: str, *, url: str | None = None, **settings: object) -> Member:
        """Start one more; settings are given by name, as in the environment."""
        given = self._start
        log = given.folder / "logs" / f"{len(self.members)}-{role}.log"
        ours = {
            "HOME": given.folder / "home",
            "DATABASE_URL": url or given.url,
            "PLUGINS": given.plugins,
            "LEASE_SECONDS": given.lease,
            "LOG_FORMAT": "json",
            **{name.upper(): value for name, value in settings.items()},
        }
        foreign = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
        environment = foreign | {f"ANABRANCH_{name}": str(value) for name, value in ours.items()}
        with log.open("wb") as output:
            member = Member(role, self._launch(role, environment, output), log)
        self.members.append(member)
        return member

    def _launch(
        self, role: str, environment: dict[str, str], output: IO[bytes]
    ) -> "WarmProcess | subprocess.Popen[bytes]":
        if self._start.source is None:
            return start_warm([role], environment, stdout=output, stderr=output)
        command = [sys.executable, "-P", "-m", "anabranch", role]
        environment = {**environment, "PYTHONPATH": str(self._start.source)}
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    async def start_ready(self, *roles: str, **settings: Any) -> list[Member]:  # as `start` takes them
        """Start several, and wait for their sessions."""
        started = [self.start(role, **settings) for role in roles]
        for member in started:
            await member.started()
        return started

    def alive(self, role: str) -> list[Member]:
        """Those of a role that still run."""
        return [m for m in self.members if m.role == role and m.process.poll() is None]

    def close(self) -> None:
        """Kill them all, and what they started."""
        for member in self.members:
            member.kill()
        end(lambda: marked("ANABRANCH_HOME", str(self._start.folder / "home")), (signal.SIGKILL, 5.0))

    def last_words(self) -> str:
        """The end of each log, to find out why a test failed."""
        return "\n".join(f"--- {m.log.name}\n" + "\n".join(m.log.read_text().splitlines()[-15:]) for m in self.members)


class Stage:
    """A gateway in this process, a crew of real ones, and one database."""

    def __init__(self, start: Start, gateway: Gateway) -> None:
        """Made by `open_stage`."""
        self.url = start.url
        self.folder = start.folder
        self.crew = Crew(start)
        self.gateway = gateway
        self.notes = start.folder / "notes"
        self.notes.touch()

    async def submit(self, workflow: str, **parameters: Any) -> str:  # any JSON
        """Submit a job; its handlers write to the stage's notes."""
        given = {"notes": str(self.notes), **parameters}
        while True:
            try:
                job = await self.gateway.submit(
                    Order(workflow, given, scope="default", by="test", correlation_id="test")
                )
            except Unavailable:
                await asyncio.sleep(0.1)
            else:
                return job.job_id

    async def job(self, job_id: str) -> JobDetail:
        """The job as it stands, when the database answers again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return await self.gateway.reads.job(job_id)
            except Unavailable:
                assert time.monotonic() < deadline, "the database is away"
                await asyncio.sleep(0.1)

    async def until(self, job_id: str, true: Callable[[JobDetail], object]) -> JobDetail:
        """Wait until a job is as wanted."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true(job := await self.job(job_id)):
            late = time.monotonic() > deadline
            assert not late, f"after {PATIENCE_SECONDS} s: {job}\n{self._state()}\n{self.crew.last_words()}"
            await asyncio.sleep(0.03)
        return job

    async def complete(self, job_id: str) -> JobDetail:
        """Wait until a job has completed."""
        job = await self.until(job_id, lambda job: job.job.state in TERMINAL_STATES)
        assert job.job.state is JobState.COMPLETED, f"{job}\n{self.crew.last_words()}"
        return job

    async def finish(self, *job_ids: str) -> JobDetail:
        """Wait until these jobs, the last that are open, have completed, and see that everything adds up."""
        jobs = [await self.complete(job_id) for job_id in job_ids]
        await wait_until_async(lambda: not audit(self.url), f"an end without faults: {audit(self.url)}")
        return jobs[-1]

    async def reach(self, job_id: str, completed: int) -> None:
        """Wait until so many tasks of a job's first node have completed."""
        await self.until(job_id, lambda job: job.nodes[0].tasks.completed >= completed)

    async def tasks(self, job: JobDetail, node: str) -> list[TaskDetail]:
        """The tasks of a node."""
        return await self.gateway.reads.tasks(job.job.id, limit=10_000, after=None, node=node, status=None)

    def noted(self, what: str) -> list[list[str]]:
        """The notes of one kind that handlers took: node, index, attempt, pid, time."""
        return [words[1:] for line in self.notes.read_text().splitlines() if (words := line.split())[0] == what]

    def end_sessions(self, member: Member) -> None:
        """Note in the database that a process died, as the supervisor does."""
        self.query(f"update app.sessions set dead_at = app.now() where pid = {member.pid} and dead_at is null")
        self.query("select app.release_dead(1000)")

    def query(self, query: str) -> list[tuple[Any, ...]]:  # rows of any shape
        """Rows of the stage's database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(query.encode())
            return found.fetchall() if found.description else []

    def _state(self) -> str:
        return "\n".join(
            f"{table}: {self.query(f'select * from app.{table} limit 20')}"
            for table in ("claims", "due", "rights", "lanes", "sessions")
        )


@asynccontextmanager
async def open_stage(start: Start) -> AsyncIterator[Stage]:
    """A stage; at its end no process is left."""
    settings = Settings(
        plugins=tuple(str(start.plugins).split(",")), home=start.folder / "home", lease_seconds=start.lease
    )
    gateway = Gateway(settings, start.url)
    stage = Stage(start, gateway)
    await gateway.open()
    try:
        await asyncio.wait_for(gateway.ready(), PATIENCE_SECONDS)
        yield stage
    finally:
        stage.crew.close()
        await gateway.close()
