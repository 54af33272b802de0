"""Transactions of several connections, stepped through an order that a test gives; and what must be true after each.

A statement that waits for a lock is seen by `pg_blocking_pids`, left alone, and resumed when the others let go.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, conninfo
from anabranch.adapters.postgres.database import call_text

__all__ = ["Actor", "Connections", "Run", "Scene", "call", "open_connections", "orders", "pin", "pinned_orders"]

PATIENCE_SECONDS = 20
# A deadlock is found soon, and by the server: SQLSTATE 40P01.
HASTY = "-c deadlock_timeout=20ms -c statement_timeout=15s"

# Parents before those that refer to them.
TABLES = (
    "workflows", "sessions", "jobs", "nodes", "lanes", "items", "claims", "due", "outcomes", "attempts", "checkpoints",
    "traces", "rights", "waits", "signals", "children", "limits", "limit_changes", "turns", "events", "duties", "clock",
    "staged_items",
)  # fmt: skip

# One row for each thing that is wrong. Every transition must leave none, in whatever order it met the others. A node
# whose name begins with wait has no signal to wait for.
AUDIT = """
    with counted as (
        select l.*, j.state as job_state, n.state as node_state,
               (select count(*) from app.claims c where c.lane = l.id) as claims,
               (select count(*) from app.children k where k.lane = l.id) as children,
               (select count(*) from app.due d where d.lane = l.id) as due,
               (select count(*) from app.outcomes o where o.lane = l.id) as ended,
               (select count(*) from app.outcomes o where o.lane = l.id and o.outcome <> 'cancelled') as final,
               (select count(*) from app.outcomes o where o.lane = l.id and o.outcome = 'failed') as failures,
               (select count(*) from app.rights r where r.lane = l.id) as rights
          from app.lanes l join app.jobs j on j.id = l.job join app.nodes n on n.job = l.job and n.name = l.node)
    select 'lane ' || id || ' (' || node || ') ' || what from (
        select c.id, c.node, 'runs ' || running || ', but has claims and children: ' || claims + children as what
          from counted c where not closed and running <> claims + children
        union all
        select id, node, 'has remaining ' || remaining || ' of ' || width || ', but ended: ' || final
          from counted where remaining <> width - final
        union all
        select id, node, 'has failed ' || failed || ', but outcomes: ' || failures from counted where failed <> failures
        union all
        select id, node, 'is at index ' || next_index || ', but has tasks: ' || claims + children + due + ended
          from counted where not closed and next_index <> claims + children + due + ended
        union all
        select id, node, 'has ended and is open' from counted where not closed and (remaining = 0 or failed > tolerated)
        union all
        select id, node, 'is open, and its job is ' || job_state from counted
         where not closed and job_state in ('completed', 'failed', 'cancelled')
        union all
        select id, node, 'is open, and superseded' from counted where not closed and superseded
        union all
        select id, node, 'is closed, its node runs, and nobody has the right' from counted c
         where closed and not superseded and rights = 0 and job_state in ('running', 'waiting')
           and node_state = 'running'
           and not exists (select from app.lanes x where x.job = c.job and x.node = c.node and x.id > c.id)
        union all
        select id, node, 'gave more than one right' from counted where rights > 1
        union all
        select id, node, 'is held by no limit: ' || held from counted
         where not closed and not exists (select from app.limits m where m.kind || ' ' || m.name = held)
           and held is not null
        union all
        select t.lane, '', 'has task ' || t.idx || ' in two places'
          from (select lane, idx from app.claims union all select lane, idx from app.children
                union all select lane, idx from app.due
                union all select lane, idx from app.outcomes) t group by t.lane, t.idx having count(*) > 1) wrong
    union all
    select 'job ' || id || ' is at event ' || last_event || ', but they are others' from app.jobs
     where last_event <> (select count(*) from app.events where job = jobs.id)
        or last_event <> (select max(seq) from app.events where job = jobs.id)
    union all
    select 'job ' || e.job || ' was told twice: ' || e.kind || ' ' || coalesce(e.node, '')
      from (select x.*, (select count(*) from app.events r
                          where r.job = x.job and r.kind = 'job.retried' and r.seq <= x.seq) as generation
              from app.events x where x.kind not in ('job.running', 'job.waiting', 'tasks.repeated')) e
     group by e.job, e.generation, e.kind, e.node having count(*) > 1
    union all
    select 'job ' || j.id || ' is ' || j.state || ', and its node ' || n.name || ' ' || n.state
      from app.jobs j join app.nodes n on n.job = j.id
     where j.state in ('completed', 'failed', 'cancelled') and n.state in ('pending', 'running')
    union all
    select 'job ' || j.id || ' is ' || j.state || ', and its parent was not told'
      from app.jobs j join app.children k on k.job = j.id
     where j.state in ('completed', 'failed', 'cancelled') and k.ended_at is null
    union all
    select 'job ' || k.job || ' is said to have ended, and is ' || j.state
      from app.children k join app.jobs j on j.id = k.job
     where k.ended_at is not null and j.state not in ('completed', 'failed', 'cancelled')
    union all
    select 'node ' || w.node || ' waits, and is ' || n.state
      from app.waits w join app.nodes n on n.job = w.job and n.name = w.node where n.state <> 'running'
    union all
    select 'node ' || w.node || ' waits for nothing' from app.waits w
     where w.until is null and w.node like 'wait%'
       and not exists (select from app.rights r where r.job = w.job and r.node = w.node)
    union all
    select 'node ' || w.node || ' was told, and nobody has the right'
      from app.waits w join app.signals s using (job, node, generation)
     where not exists (select from app.rights r where r.job = w.job and r.node = w.node)
    union all
    select 'job ' || job_id || ' is stuck' from app.stuck_jobs
    union all
    select 'limit of ' || m.kind || ' ' || m.name || ' sums up to ' || r.running || ', but runs: ' || r.counted
      from (select x.*, (app.read_running(x.kind, x.name)).running, app.count_running(x.kind, x.name) as counted
              from app.limits x) r
      join app.limits m using (kind, name)
     where m.most is not null and r.running <> r.counted
"""


@dataclass(frozen=True)
class Actor:
    """One transaction: its statements, then a commit."""

    name: str
    statements: tuple[tuple[str, tuple[object, ...]], ...]
    is_pin: bool = False

    @property
    def steps(self) -> int:
        """How often it comes up in an order."""
        return len(self.statements) + 1


def call(name: str, function: str, *arguments: object) -> Actor:
    """A transaction that calls one function of schema app."""
    return Actor(name, ((call_text(function), arguments),))


def pin(name: str, table: str, where: str) -> Actor:
    """A transaction that holds one row and does nothing: others stop at it in the middle of their statements."""
    return Actor(f"pin {name}", ((f"select from app.{table} where {where} for update", ()),), is_pin=True)


def orders(actors: Sequence[Actor]) -> Iterator[tuple[int, ...]]:
    """Every order of the actors' steps."""

    def extend(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not any(left):
            yield ()
        for place, count in enumerate(left):
            if count:
                for rest in extend((*left[:place], count - 1, *left[place + 1 :])):
                    yield (place, *rest)

    return extend(tuple(actor.steps for actor in actors))


def pinned_orders() -> list[tuple[int, ...]]:
    """Of a pin and two others: both meet the pin, in either order, and go on from inside their statements."""
    return [(0, 1, 2, 0, 1, 2), (0, 1, 2, 0, 2, 1), (0, 2, 1, 0, 1, 2), (0, 2, 1, 0, 2, 1)]


class Scene:
    """What transactions meet in: built once by the functions themselves, and put back as it was before each order."""

    def __init__(self, admin: Connection[TupleRow]) -> None:
        """In the database of this connection."""
        self._admin = admin
        self._script = ""

    def alter(self, table: str, change: str, where: str) -> None:
        """Change what the functions would not."""
        done = self._admin.execute(f"update app.{table} set {change} where {where}".encode())
        assert done.rowcount

    def keep(self) -> None:
        """Keep a copy of everything as it is now."""
        self._admin.execute("create schema saved")
        for table in TABLES:
            self._admin.execute(f"create table saved.{table} as table app.{table}".encode())
        forget = [f"delete from app.{table};" for table in reversed(TABLES)]
        self._script = " ".join(forget + [self._insert(table) for table in TABLES])

    def put_back(self) -> None:
        """Everything as it was kept."""
        self._admin.execute(self._script.encode())

    def wrongs(self) -> list[str]:
        """What the audit finds."""
        return [wrong for (wrong,) in self._admin.execute(AUDIT.encode()).fetchall()]

    async def find_idle(self, connections: "Connections", actors: Iterable[Actor]) -> list[str]:
        """Who changes nothing even when alone: what it meets would prove nothing."""
        same = " and ".join(
            f"not exists (table app.{table} except all table saved.{table})"
            f" and (select count(*) from app.{table}) = (select count(*) from saved.{table})"
            for table in TABLES
        )
        idle = []
        for actor in actors:
            self.put_back()
            await connections.run([actor], [0] * actor.steps)
            found = self._admin.execute(f"select {same}".encode()).fetchone()
            idle += [actor.name] if found == (True,) else []
        return idle

    async def attempt(self, connections: "Connections", actors: Sequence[Actor], order: Sequence[int]) -> list[str]:
        """What goes wrong in this order."""
        self.put_back()
        run = await connections.run(actors, order)
        wrongs = [f"{name}: {error.sqlstate} {error.diag.message_primary}" for name, error in run.errors.items()]
        wrongs += self.wrongs()
        applied = [answers[-1][0] for name, answers in run.answers.items() if name.startswith("apply") and answers]
        if len({actor.name for actor in actors}) < len(actors) and applied.count(True) > 1:
            wrongs.append("applied twice")
        return [f"{wrong}  [{'; '.join(run.story)}]" for wrong in wrongs]

    def _insert(self, table: str) -> str:
        listed = self._admin.execute(
            "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute"
            " where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = ''",
            [f"app.{table}"],
        ).fetchone()
        assert listed
        columns = listed[0]
        return f"insert into app.{table} ({columns}) overriding system value select {columns} from saved.{table};"


@dataclass
class Run:
    """What became of an order: the first row of each statement, the errors, and the story."""

    answers: dict[str, list[Any]] = field(default_factory=dict)
    errors: dict[str, psycopg.Error] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)

    def tell_waiting(self, names: Sequence[str]) -> None:
        """Note who waits now, once."""
        told = f"waiting: {', '.join(names)}"
        if names and (not self.story or self.story[-1] != told):
            self.story.append(told)


class _Stepper:
    """One actor on one connection."""

    def __init__(self, actor: Actor, connection: AsyncConnection[TupleRow], run: Run) -> None:
        self.actor, self.name, self.connection = actor, actor.name, connection
        self._run = run
        self._next = 0
        self.waiting: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self._next == self.actor.steps or self.name in self._run.errors

    def step(self) -> asyncio.Task[None]:
        """Start the next statement, or the commit."""
        self._next += 1
        if self._next == self.actor.steps:
            return asyncio.create_task(self._commit())
        return asyncio.create_task(self._execute(*self.actor.statements[self._next - 1]))

    async def _execute(self, text: str, arguments: tuple[object, ...]) -> None:
        try:
            cursor = await self.connection.execute(text.encode(), arguments)
            self._run.answers.setdefault(self.name, []).append(await cursor.fetchone() if cursor.description else None)
        except psycopg.Error as error:
            self._run.errors[self.name] = error
            self._run.story.append(f"{self.name}: {error.sqlstate} {error.diag.message_primary}")
            await self.connection.rollback()

    async def _commit(self) -> None:
        await self.connection.commit()
        self._run.story.append(f"{self.name}: committed")


class Connections:
    """As many connections as actors, and one that watches them."""

    def __init__(
        self, actors: Sequence[AsyncConnection[TupleRow]], admins: Sequence[AsyncConnection[TupleRow]]
    ) -> None:
        """Made by `open_connections`."""
        self._connections = actors
        self._pin, self._watcher = admins

    async def run(self, actors: Sequence[Actor], order: Sequence[int]) -> Run:
        """Step the actors in this order; a step of one that waits comes as soon as it has what it waits for."""
        run = Run()
        steppers = [
            _Stepper(actor, self._pin if actor.is_pin else connection, run)
            for actor, connection in zip(actors, self._connections, strict=False)
        ]
        todo, late = deque(order), deque[int]()
        while todo or late:
            ready = next((place for place in late if steppers[place].waiting is None), None)
            if ready is not None:
                late.remove(ready)
                await self._step(steppers[ready], steppers, run)
            elif todo:
                place = todo.popleft()
                if steppers[place].waiting:
                    late.append(place)
                else:
                    await self._step(steppers[place], steppers, run)
            else:
                await self._settle(steppers, run)
        return run

    async def _step(self, stepper: _Stepper, steppers: Sequence[_Stepper], run: Run) -> None:
        if stepper.is_over:
            return
        stepper.waiting = stepper.step()
        await self._settle(steppers, run)

    async def _settle(self, steppers: Sequence[_Stepper], run: Run) -> None:
        """Return when every statement has ended or waits for a lock."""
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while moving := [stepper for stepper in steppers if stepper.waiting]:
            await asyncio.wait([s.waiting for s in moving if s.waiting], timeout=0.001)
            for stepper in moving:
                if stepper.waiting and stepper.waiting.done():
                    stepper.waiting.result()
                    stepper.waiting = None
            blocked = await self._blocked([stepper for stepper in moving if stepper.waiting])
            if len(blocked) == len([stepper for stepper in moving if stepper.waiting]):
                run.tell_waiting([stepper.name for stepper in blocked])
                return
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"neither done nor blocked: {[stepper.name for stepper in moving]}: {run.story}")

    async def _blocked(self, waiting: Sequence[_Stepper]) -> list[_Stepper]:
        if not waiting:
            return []
        pids = [stepper.connection.info.backend_pid for stepper in waiting]
        cursor = await self._watcher.execute(
            "select pid from unnest(%s::integer[]) pid where pg_blocking_pids(pid) <> '{}'", [pids]
        )
        blocked = {pid for (pid,) in await cursor.fetchall()}
        return [stepper for stepper in waiting if stepper.connection.info.backend_pid in blocked]


@asynccontextmanager
async def open_connections(url: str, count: int) -> AsyncIterator[Connections]:
    """Connections for so many actors, in the app's role."""
    options = {"options": f"{conninfo_to_dict(url).get('options', '')} {HASTY}"}
    hasty = make_conninfo(url, **options)
    opened = [await AsyncConnection.connect(conninfo(hasty, Role.APP, f"actor {n}")) for n in range(count)]
    admins = [
        await AsyncConnection.connect(conninfo(hasty, None, name), autocommit=name == "watcher")
        for name in ("pin", "watcher")
    ]
    try:
        yield Connections(opened, admins)
    finally:
        for connection in (*opened, *admins):
            await connection.close()
