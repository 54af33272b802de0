"""A seeded campaign: work of every kind on real processes while faults hit them, and exact accounts at the end.

The seed decides which jobs are submitted and which faults come in which order; when each hits depends on the machine.
Every run of a handler is noted in a file outside the database, the witness. At the end nothing may be lost, doubled,
stuck or wrong: each job has the result that its parameters give, each accepted result is that of a witnessed run of
its own task and attempt, and no failure is charged that the handler did not raise.
"""

import asyncio
import json
import secrets
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import psycopg

from anabranch.canonical import Json
from anabranch.errors import AnabranchError, Conflict, NotFound, Unavailable
from anabranch.job_control import RetryChoice
from tests.support.campaign_jobs import KINDS, PlannedJob, draw_job
from tests.support.crew import Member, Stage, Start, audit, open_stage
from tests.support.database_server import DatabaseServer
from tests.support.proxy import Proxy
from tests.support.server import free_port
from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["Campaign", "Fault", "Problems", "Recovery", "make_folder", "open_campaign"]

TICK = 0.2
OPEN_JOBS = 8

JOBS = "select job_id, state::text, error from app.jobs where job_id = any(%s)"
OUTCOMES = """
    select j.job_id, l.node, o.idx, o.attempt, o.failures, coalesce(i.handler, l.handler), o.result,
           (select jsonb_agg(jsonb_build_array(a.attempt, a.ended, a.error)) from app.attempts a
             where (a.lane, a.idx) = (o.lane, o.idx))
      from app.outcomes o join app.lanes l on l.id = o.lane join app.jobs j on j.id = l.job
      left join app.items i on (i.lane, i.idx) = (o.lane, o.idx)
     where o.outcome = 'completed' and l.purpose = 'work' and not l.superseded"""
CLEANED = """
    select j.job_id, j.state::text, jsonb_agg(o.result -> 'value')
      from app.jobs j
      left join app.lanes l on l.job = j.id and l.node = 'tidy' and not l.superseded
      left join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
     where j.workflow = 'campaign_cleaned' group by j.job_id, j.state"""
IN_FLIGHT = """
    select c.lane, c.idx from app.claims c join app.lanes l on l.id = c.lane
     where l.handler like 'campaign.%' and l.handler not like 'campaign.idle%' and not l.closed"""
PROGRESS = """
    select (select count(*) from app.outcomes) + (select count(*) from app.jobs where finished_at is not null)"""
# What ended by a clock that was ahead has not ended since.
FIRST = """
    select extract(epoch from min(finished_at))::float8 from app.outcomes
     where finished_at > to_timestamp(%s) and finished_at <= app.now()"""
LEFT = """
    select count(*) from unnest(%s::bigint[], %s::integer[]) as t (lane, idx)
     where exists (select from app.lanes l where l.id = t.lane and not l.closed)
       and not exists (select from app.outcomes o where (o.lane, o.idx) = (t.lane, t.idx))"""
LAST = """
    select extract(epoch from max(o.finished_at))::float8
      from unnest(%s::bigint[], %s::integer[]) as t (lane, idx) join app.outcomes o using (lane, idx)"""

Rows = list[tuple[Any, ...]]  # of any shape


@dataclass(frozen=True)
class Recovery:
    """Seconds from a fault to the first result accepted after it, and to the last of the tasks that ran when it hit."""

    first: float
    last: float


@dataclass
class Problems:
    """What must not be there, by kind."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def __str__(self) -> str:
        return "\n".join(f"{kind}: {one}" for kind, found in vars(self).items() for one in found[:20])

    def count(self) -> str:
        """How many of each."""
        return ", ".join(f"{len(found)} {kind}" for kind, found in vars(self).items())


@dataclass(eq=False)
class Pending:
    """A planned job on its way."""

    plan: PlannedJob
    submitted_at: float = 0
    job_id: str | None = None
    state: str = ""
    doing: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to be done about it."""
        return self.doing is None and self.state in self.ends

    @property
    def ends(self) -> tuple[str, ...]:
        """The states that are its end; what fails until it is fixed goes on."""
        return ("completed", "cancelled") if self.plan.act == "fix" else ("completed", "failed", "cancelled")


class Campaign:
    """Keeps jobs of every kind open while faults hit, then lets everything drain, and accounts for it."""

    def __init__(
        self, name: str, seed: int, stage: Stage, proxies: Sequence[Proxy], servers: list[DatabaseServer]
    ) -> None:
        """On a stage whose processes reach the database through the proxies; the first server is in use."""
        self.name, self.seed = name, seed
        self.stage, self.proxies, self.servers = stage, proxies, servers
        self.server = servers[0] if servers else None
        self.random = Random(f"{seed} faults")
        self.jobs: list[Pending] = []
        self.kinds: tuple[str, ...] = KINDS
        self.faults: Counter[str] = Counter()
        self.recoveries: defaultdict[str, list[Recovery]] = defaultdict(list)
        self.problems = Problems()
        self.is_restored = False
        self.is_timed = True
        self.is_audited = True
        self.api_port = free_port()
        # Errors of tasks that a fault excuses, by code or category: a user retries such a job when the fault is over.
        self.excused: frozenset[str] = frozenset()
        # Runs of another history: none of them may be accepted.
        self.forbidden: set[str] = set()
        self._draws = Random(f"{seed} jobs")
        self._drawn = 0
        self._draining = False
        self._hit_at = 0.0
        self._running: tuple[list[int], list[int]] = [], []
        self._working: asyncio.Task[None] | None = None
        self._replaced: set[Member] = set()
        self._misled: list[Pending] = []

    async def run(self, faults: Sequence["Fault"], count: int) -> None:
        """Let so many faults hit, one after the other in random order, and account for everything."""
        self.start()
        for fault in self.draw(faults, count):
            await self.strike(fault)
        await self.finish()

    async def finish(self) -> None:
        """Let everything drain, and account for it."""
        await self.drain()
        await self.verify()
        print(f"campaign {self.name}, seed {self.seed}: {self.summary()}", flush=True)  # noqa: T201
        self.report()

    def draw(self, faults: Sequence["Fault"], count: int) -> list["Fault"]:
        """So many faults in random order, each as often as the others."""
        turns = [self.random.sample(faults, len(faults)) for _ in range(count // len(faults) + 1)]
        return [fault for turn in turns for fault in turn][:count]

    def start(self) -> None:
        """Begin to submit, to signal, to cancel and to retry, and go on until everything drains."""
        self._working = asyncio.create_task(self._work())

    async def strike(self, fault: "Fault") -> None:
        """Let one fault hit amid work, and wait until what it hit has been made good."""
        kind, self.is_timed = fault.__name__, True
        await self.advance_by(self.random.choice((2, 10, 30)), f"work before {kind}")
        await self.mark_hit()
        await fault(self)
        self.faults[kind] += 1
        await self._recover(kind)

    async def mark_hit(self) -> None:
        """The fault hits now: remember what runs."""
        rows = await self.ask(IN_FLIGHT)
        self._hit_at = time.time()
        self._running = [lane for lane, _ in rows], [idx for _, idx in rows]

    def take_hold(self) -> None:
        """The fault needed a moment to take hold: times count from now."""
        self._hit_at = time.time()

    def start_over(self) -> None:
        """The database is at an earlier point again: all jobs are looked at as if for the first time."""
        self.is_restored = True
        self.take_hold()
        self._running = [], []
        for job in self.jobs:
            job.state = ""

    async def drain(self) -> None:
        """Submit nothing more, and wait until all jobs have ended."""
        self._draining = True
        await self._until(self._have_all_ended, "the end of all jobs")
        await self.stop()
        if not self.is_audited:
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := await asyncio.to_thread(audit, self.stage.url)) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
        self.problems.stuck += [f"audit: {one}" for one in found]

    async def stop(self) -> None:
        """Submit, act and supervise no more: what is ended from now on stays so."""
        tasks = [task for task in (self._working, *(job.doing for job in self.jobs)) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def verify(self) -> None:
        """Hold every job and every accepted result against its parameters and its witness."""
        for job in self.jobs:
            await self._verify_job(job)
        self._verify_outcomes(self.witnessed(), await self.ask(OUTCOMES))
        self._verify_cleanup(await self.ask(CLEANED))

    def witnessed(self) -> dict[str, dict[str, Any]]:
        """The last note of each run, with the time when it began."""
        found: dict[str, dict[str, Any]] = {}
        for line in self.stage.notes.read_text().splitlines():
            if line.startswith("{") and line.endswith("}"):
                note = json.loads(line)
                found[note["run"]] = {**note, "began_at": found.get(note["run"], {}).get("began_at", note["at"])}
        return found

    def report(self) -> None:
        """Raise what is wrong, with the way to see it again."""
        if not self.problems:
            return
        replay = f'make faults ARGS="-k {self.name} --seed {self.seed}"'
        raise AssertionError(
            f"campaign {self.name}, seed {self.seed}: {self.problems.count()}; faults {dict(self.faults)}\n"
            f"{self.problems}\nReplay: {replay}\n{self.stage.crew.last_words()}"
        )

    def summary(self) -> str:
        """One line: jobs, runs, faults, problems, and how long recoveries took."""
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        ended = sum(job.has_ended for job in self.jobs)
        runs = self.stage.notes.read_text().count("\n")
        slowest = max((one.last for found in self.recoveries.values() for one in found), default=0)
        return (
            f"{ended} of {len(self.jobs)} jobs ended, {runs} notes of runs; faults: {faults or 'none'};"
            f" {self.problems.count()}; slowest recovery {slowest:.1f} s"
        )

    async def ask(self, query: str, *given: object) -> Rows:
        """Rows of the database, straight from the server, when it answers again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(psycopg.OperationalError):
                return await asyncio.to_thread(self._ask, query, *given)
            assert time.monotonic() < deadline, "the database did not come back"
            await asyncio.sleep(0.1)

    def _ask(self, query: str, *given: object) -> Rows:
        with psycopg.connect(self.stage.url, autocommit=True, connect_timeout=5) as connection:
            return connection.execute(query.encode(), given or None).fetchall()

    def move_to(self, server: DatabaseServer) -> None:
        """Lead every new connection to another server from now on."""
        self.server, self.stage.url = server, server.url
        for proxy in self.proxies:
            proxy.point_at(server.url)

    async def retire(self, server: DatabaseServer) -> None:
        """End a server that is not needed any more."""
        self.servers.remove(server)
        await asyncio.to_thread(server.purge)

    def start_member(self, role: str) -> Member:
        """Start one more process, before any of the proxies."""
        url = self.random.choice(self.proxies).url if self.proxies else None
        more = {"port": self.api_port} if role == "api" else {}
        return self.stage.crew.start(role, url=url, **more)

    async def _recover(self, kind: str) -> None:
        lanes, indexes = self._running

        async def has_recovered() -> bool:
            first = (await self.ask(FIRST, self._hit_at))[0][0] or not self.is_timed
            return bool(first) and not (await self.ask(LEFT, lanes, indexes))[0][0]

        await self._until(has_recovered, f"recovery from {kind}")
        if self.is_timed:
            first = (await self.ask(FIRST, self._hit_at))[0][0] - self._hit_at
            last = (await self.ask(LAST, lanes, indexes))[0][0]
            self.recoveries[kind].append(Recovery(first, max(first, last - self._hit_at if last else 0)))

    async def advance_by(self, count: int, what: str = "work") -> None:
        """Wait until so much more has ended."""
        goal = (await self.ask(PROGRESS))[0][0] + count

        async def has_advanced() -> bool:
            return bool((await self.ask(PROGRESS))[0][0] >= goal)

        await self._until(has_advanced, what)

    async def _have_all_ended(self) -> bool:
        return all(job.has_ended for job in self.jobs)

    async def _until(self, true: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait; stuck is what makes no progress for a long time."""
        seen, since = -1, time.monotonic()
        while not await true():
            progress = (await self.ask(PROGRESS))[0][0]
            if progress != seen:
                seen, since = progress, time.monotonic()
            if time.monotonic() - since > PATIENCE_SECONDS:
                open_jobs = [f"{job.job_id} {job.plan.workflow} {job.state}" for job in self.jobs if not job.has_ended]
                self.problems.stuck.append(f"no progress for {PATIENCE_SECONDS} s, waiting for {what}; {open_jobs}")
                self.report()
            if self._working and self._working.done():
                self._working.result()
            await asyncio.sleep(0.05)

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._supervise()
            if sum(not job.has_ended for job in self.jobs) < OPEN_JOBS and not self._draining:
                self.submit(draw_job(self._draws, self._drawn, self.stage.folder, self.kinds))
                self._drawn += 1
            free = [job for job in self.jobs if job.doing is None and not job.has_ended]
            try:
                rows = await asyncio.to_thread(self._ask, JOBS, [job.job_id for job in free if job.job_id])
            except psycopg.OperationalError:
                continue
            found = {row[0]: row[1:] for row in rows}
            for job in free:
                if job.doing is None and not job.has_ended:
                    self._attend(job, *found.get(job.job_id, ("lost", None)))

    def _supervise(self) -> None:
        """Start another process in the place of each that has ended, as a supervisor does."""
        for member in self.stage.crew.members:
            if member.process.poll() is not None and member not in self._replaced:
                self._replaced.add(member)
                self.start_member(member.role)

    def submit(self, plan: PlannedJob) -> None:
        """Submit a job, and see it through."""
        job = Pending(plan, time.monotonic())
        self.jobs.append(job)
        self._do(job, self._submit(job))

    def _attend(self, job: Pending, state: str, error: dict[str, Any] | None) -> None:
        """Do what the job needs as it stands; what was done may have been undone by a restore."""
        if job.job_id is None or (state == "lost" and self.is_restored):
            self._do(job, self._submit(job))
        job.state = state
        is_due = time.monotonic() - job.submitted_at > job.plan.after
        controls, job_id = self.stage.gateway.controls, job.job_id or ""
        if state == "failed" and (job.plan.act == "fix" or self._excuses(error)):
            if job.plan.act == "fix":
                Path(str(job.plan.parameters["file"])).touch()
            job.state = ""
            self._do(job, controls.retry(job_id, RetryChoice(), "test"))
        elif state in ("running", "waiting") and is_due and job.plan.act == "cancel":
            self._do(job, controls.cancel(job_id, "campaign", "test"))
        elif state in ("running", "waiting") and is_due and job.plan.act == "signal":
            self._do(job, controls.signal(job_id, "review", {"answer": job.plan.answer}, "test"))

    def _excuses(self, error: dict[str, Any] | None) -> bool:
        return bool(error) and any(f'"{word}"' in json.dumps(error) for word in self.excused)

    def _do(self, job: Pending, act: Coroutine[Any, Any, object]) -> None:
        async def try_to() -> None:
            try:
                await act
            except (Unavailable, Conflict, NotFound):
                pass  # it is done again if it is still to do
            except (AnabranchError, httpx.HTTPStatusError) as error:
                if job not in self._misled:
                    self.problems.wrong.append(f"{job.plan.workflow} {job.job_id}: the caller got {error!r}")
                self._misled.append(job)
            finally:
                job.doing = None

        job.doing = asyncio.create_task(try_to())

    async def _submit(self, job: Pending) -> None:
        submit = (
            self._submit_by_http if self.stage.crew.alive("api") and self._draws.random() < 0.5 else self.stage.submit
        )
        job.job_id = await submit(job.plan.workflow, **job.plan.parameters)

    async def _submit_by_http(self, workflow: str, **parameters: Json) -> str:
        """As a client does that goes on until it has an answer."""
        url = f"http://127.0.0.1:{self.api_port}/api/jobs/submit/{workflow}"
        given = {"notes": str(self.stage.notes), **parameters}
        async with httpx.AsyncClient(headers={"Idempotency-Key": secrets.token_hex(8)}, timeout=10) as client:
            while True:
                with suppress(httpx.TransportError):
                    answer = await client.post(url, json=given)
                    if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                        answer.raise_for_status()
                        return str(answer.json()["job_id"])
                await asyncio.sleep(0.1)

    async def _verify_job(self, job: Pending) -> None:
        try:
            found = (await self.stage.job(job.job_id or "")).job
        except NotFound:
            self.problems.lost.append(f"{job}")
            return
        state, result, error = found.state, found.result, found.error
        is_cancelled = job.plan.act == "cancel"
        if state != ("cancelled" if is_cancelled else "completed"):
            self.problems.wrong.append(f"{job.plan.workflow} {job.job_id} is {state}: {str(error)[:600]}")
        elif not is_cancelled and _without_runs(result) != job.plan.expected:
            self.problems.wrong.append(f"{job.plan.workflow} {job.job_id} gave {result}, not {job.plan.expected}")

    def _verify_outcomes(self, witnessed: dict[str, dict[str, Any]], outcomes: Rows) -> None:
        seen: dict[str, object] = {}
        counts: Counter[str] = Counter()
        for job_id, node, idx, attempt, failures, handler, result, attempts in outcomes:
            if handler.startswith("poison."):  # it is not accounted for
                continue
            task = f"{node} {idx} of {job_id}, attempt {attempt}, {handler}"
            counts[job_id] += 1
            if failures and handler not in ("campaign.flaky", "campaign.broken") and not self.excused:
                what = f"{task}: {failures} failures are charged that the handler did not raise"
                self.problems.wrong.append(f"{what}: {json.dumps(attempts)[:600]}")
            run = result.get("run") if isinstance(result, dict) else None
            if run is None:  # a large result, whose run the next stage names; or that of a job
                continue
            told = {"what": "ended", "job": job_id, "node": node, "attempt": attempt, "value": result["value"]}
            self._verify_run(task, run, told, witnessed)
            for read in result.get("runs", ()):  # the large results that it was given
                self._verify_run(task, read, {"what": "ended", "job": job_id}, witnessed)
            if run in seen:
                self.problems.doubled.append(f"{task}: run {run} was accepted for {seen[run]}, too")
            seen[run] = task
        for job in self.jobs:
            if job.job_id and job.job_id in counts and counts[job.job_id] != job.plan.tasks:
                what = f"{job.plan.workflow} {job.job_id} has {counts[job.job_id]} results, not {job.plan.tasks}"
                self.problems.lost.append(what)

    def _verify_cleanup(self, cleaned: Rows) -> None:
        """Each job ran its cleanup once, which knew how the job ends and what was done before."""
        found = {job_id: (state, values) for job_id, state, values in cleaned}
        for job in self.jobs:
            if job.plan.workflow != "campaign_cleaned" or job.job_id not in found:
                continue
            state, values = found[job.job_id]
            done = None if job.plan.act == "cancel" else job.plan.expected["value"]  # type: ignore[call-overload,index]
            if values != [[state, done]]:
                what = f"{job.plan.workflow} {job.job_id} is {state}, and its cleanup said {values}"
                (self.problems.doubled if len(values) > 1 else self.problems.wrong).append(what)

    def _verify_run(self, task: str, run: str, told: dict[str, Any], witnessed: dict[str, dict[str, Any]]) -> None:
        note = witnessed.get(run, {})
        if any(note.get(key) != value for key, value in told.items()):
            self.problems.wrong.append(f"{task}: accepted {told}, witnessed {note}")
        if run in self.forbidden:
            self.problems.wrong.append(f"{task}: a result of another history was accepted: {note}")


def _without_runs(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_runs(inner) for key, inner in value.items() if key not in ("run", "runs")}
    return [_without_runs(inner) for inner in value] if isinstance(value, list) else value


@asynccontextmanager
async def open_campaign(  # what a campaign is made of
    name: str,
    seed: int,
    folder: Path,
    plugins: Path | str,
    *,
    url: str | None = None,
    workers: int = 2,
    proxies: int = 2,
) -> AsyncIterator[Campaign]:
    """A campaign whose processes are up: on the database of this URL, or on a server of its own."""
    server = None if url else await asyncio.to_thread(DatabaseServer, make_folder(folder))
    direct = url or (server.url if server else "")
    servers = [server] if server else []
    async with AsyncExitStack() as stack:
        stack.callback(_purge_all, servers)
        doors = [await stack.enter_async_context(Proxy(direct)) for _ in range(proxies)]
        stage = await stack.enter_async_context(open_stage(Start(folder, plugins, doors[0].url)))
        stage.url = direct
        campaign = Campaign(name, seed, stage, doors, servers)
        stack.push_async_callback(campaign.stop)
        for member in [campaign.start_member(role) for role in ("orchestrator", "api", *["worker"] * workers)]:
            await member.started()
        yield campaign


def _purge_all(servers: list[DatabaseServer]) -> None:
    for server in servers:
        server.purge()


def make_folder(folder: Path) -> Path:
    """A folder inside another that the server's user can enter."""
    made = Path(tempfile.mkdtemp(dir=folder))
    made.chmod(0o755)
    return made


Fault = Callable[[Campaign], Coroutine[Any, Any, None]]
