"""The engine's store on PostgreSQL: converts, calls, and adds nothing."""

import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg.errors import LockNotAvailable
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.store.children import take_children
from anabranch.adapters.postgres.store.definitions import PostgresDefinitions
from anabranch.adapters.postgres.store.heartbeat import PostgresHeartbeat
from anabranch.adapters.postgres.store.keys import PostgresKeys
from anabranch.adapters.postgres.store.platforms import PostgresPlatforms, SubmittedRelease
from anabranch.adapters.postgres.store.retention import PostgresRetention
from anabranch.adapters.postgres.store.rows import (
    read_answers,
    read_claims,
    read_definition,
    read_right,
    read_rights,
    read_submitted,
    read_verdict,
    write_batch,
    write_change,
    write_in_hand,
    write_report,
    write_reports,
)
from anabranch.adapters.postgres.store.schedules.schedules import PostgresSchedules, PostgresTicks
from anabranch.adapters.postgres.store.schedules.watches import PostgresWatches
from anabranch.adapters.postgres.store.sweep import LAST_LANE, PostgresSweep
from anabranch.adapters.postgres.store.webhooks import PostgresOutbox, PostgresWebhooks
from anabranch.canonical import JsonObject, encode
from anabranch.contract.control import Limit
from anabranch.engine.advancing.json_array import Items
from anabranch.engine.advancing.lanes import OpenLane
from anabranch.engine.advancing.transitions import Transition
from anabranch.engine.job_retry import RetryPlan
from anabranch.engine.model import (
    Answer,
    ApplyResult,
    Attempt,
    ChildJob,
    Claim,
    InHand,
    JobEnd,
    JobState,
    LimitChange,
    LimitKind,
    Report,
    RetryAnswer,
    RightId,
    RightView,
    SessionId,
    SessionKind,
    SignalAnswer,
)
from anabranch.engine.ports import (
    Applied,
    ClaimRequest,
    ClockReading,
    KeyTaken,
    ResultPage,
    Spawned,
    StoredValue,
    Submitted,
    Swept,
    TakenRight,
    Turn,
    Verdict,
)
from anabranch.engine.submitting.submission import IdempotencyKey, Submission
from anabranch.errors import NotFound, Unavailable
from anabranch.platform.action_by import ActionBy
from anabranch.storage.addresses import Address
from anabranch.storage.read_access import ReadRights
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import Reference
from anabranch.workflows.work import Breaker

__all__ = ["PostgresStore"]

BATCH_HOLDS = 1000
LOCK_WAITS = 2  # each as long as the server lets a statement wait for a lock
PART_MISSING = "AN002"
STAGED_BYTES = 4_000_000


class PostgresStore:
    """Jobs, tasks and sessions in schema app, by its functions only."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        stack: str = "",
        connections: int = 2,
        checked: bool = False,
        known_for: timedelta = timedelta(hours=1),
        declared: int = 0,
    ) -> None:
        """Nothing is opened yet. Sessions are those of `stack`; `checked` connections are tried before each use.

        A session says that its process takes `declared` connections of the server at most.
        A definition that was stored is taken to be there for the time `known_for`.
        """
        self._url = url
        self._name = name
        self._stack = stack
        self._connections = declared
        self._database = Database(url, Role.APP, name=name, size=connections, checked=checked)
        self._sweep = PostgresSweep(self._database)
        self._definitions = PostgresDefinitions(self._database, known_for)

    async def open(self) -> None:
        """Start connecting."""
        await self._database.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._database.close()

    def pulse(self, queues: Collection[str] = ()) -> PostgresHeartbeat:
        """A separate connection for heartbeats and the doorbells of queues."""
        return PostgresHeartbeat(self._url, f"{self._name} heartbeat", queues)

    def keys(self) -> PostgresKeys:
        """The keys of the same database, over the same connections."""
        return PostgresKeys(self._database)

    def platforms(self) -> PostgresPlatforms:
        """The platforms of the same database, over the same connections."""
        return PostgresPlatforms(self._database)

    def webhooks(self) -> PostgresWebhooks:
        """The endpoints of webhooks, over the same connections."""
        return PostgresWebhooks(self._database)

    def outbox(self) -> PostgresOutbox:
        """The deliveries of webhooks, over the same connections, and two more for the doorbell."""
        return PostgresOutbox(self._database)

    def ticks(self) -> PostgresTicks:
        """The schedules of the same database for the duty that makes their ticks, over the same connections."""
        return PostgresTicks(self._database)

    def watches(self) -> PostgresWatches:
        """What schedules watch, for the duty that looks there, over the same connections."""
        return PostgresWatches(self._database)

    def schedules(self) -> PostgresSchedules:
        """The schedules of the same database as their owners see them, over the same connections."""
        return PostgresSchedules(self._database, self._definitions)

    def retention(self) -> PostgresRetention:
        """The store of retention, over the same connections."""
        return PostgresRetention(self._database)

    async def open_session(
        self,
        kind: SessionKind,
        queues: Sequence[str],
        slots: int,
        lease: timedelta,
        handlers: Mapping[str, str] | None = None,
        breakers: Mapping[tuple[LimitKind, str], Breaker] | None = None,
    ) -> SessionId:
        """Begin a session for this process; the handlers of a worker come with their versions.

        Its `breakers` take the place of those that were declared for its handlers and queues before; None: of none.
        """
        host, pid, known = socket.gethostname(), os.getpid(), handlers or {}
        member = f"{self._stack}/{pid}"
        given = (kind, host, pid, member, list(queues), slots, lease, list(known), Jsonb(known) if known else None)
        declared = None if breakers is None else encode([_declare(*of, one) for of, one in breakers.items()])
        return SessionId(await self._value("open_session", *given, Files().release.number, self._connections, declared))

    async def end_session(self, session: SessionId, reason: str) -> None:
        """End a session for good."""
        await self._value("end_session", session, reason)

    async def end_member_sessions(self, members: str) -> int:
        """End the sessions of a stack, or of one dead process of it (`stack/pid`); returns how many."""
        return int(await self._value("end_member_sessions", members))

    async def submit(self, submission: Submission, session: SessionId) -> Submitted:
        """Create a job whole, or find the one that is the same; KeyTaken when the key belongs to another request."""
        (answer,) = await self.submit_batch([submission], session)
        if isinstance(answer, KeyTaken):
            raise answer
        return answer

    async def submit_batch(self, submissions: Sequence[Submission], session: SessionId) -> list[Submitted | KeyTaken]:
        """Create many jobs in one transaction: all of them or none; an answer for each, in order."""
        rows = await self._submit("submit_batch", submissions, session)
        answers = {row["place"]: read_submitted(row) for row in rows}
        return [answers[place] for place in range(len(submissions))]

    async def submit_release(
        self, order: JsonObject, submission: Submission, session: SessionId, *, dry_run: bool
    ) -> SubmittedRelease:
        """Create a release or a revision with its job, in one transaction; or find out what that would come to."""
        (row,) = await self._submit("submit_release", [submission], session, encode(order), dry_run)
        return SubmittedRelease.of(row)

    async def find_new_rights(self, platform: str, at: Address) -> ReadRights:
        """What a new job of a platform may read, as far as an object needs it."""
        (row,) = await self._database.call("find_readable", platform, "", at.tier, [at.path])
        return ReadRights(**row)

    async def is_in_review(self, job_id: str) -> bool:
        """Whether a job waits at a gate for an answer."""
        return bool(await self._value("is_in_review", job_id))

    async def draft_features(
        self, job_id: str, tables: Sequence[str], after: int, limit: int, size: int
    ) -> list[tuple[int, str]]:
        """Features of tables that a job loaded and nothing shows yet, with their ids, after one of them."""
        rows = await self._database.call("draft_features", job_id, list(tables), after, limit, size)
        return [(row["gid"], row["feature"]) for row in rows]

    async def draft_tile(
        self, job_id: str, tables: Sequence[str], layer: str, tile: tuple[int, int, int], limit: int
    ) -> bytes | None:
        """A vector tile of such tables; None where there are none."""
        drawn = await self._value("draft_tile", job_id, list(tables), layer, *tile, limit)
        return None if drawn is None else bytes(drawn)

    async def _submit(
        self, function: str, submissions: Sequence[Submission], session: SessionId, *more: object
    ) -> list[DictRow]:
        """The rows of a function that creates jobs; the definitions of their parts are stored before."""
        await self._definitions.store_parts(submissions)
        arguments = (session, *write_batch(submissions), *more)
        try:
            return await self._database.call(function, *arguments)
        except Unavailable as error:
            if getattr(error.__cause__, "sqlstate", None) != PART_MISSING:
                raise
            self._definitions.forget()  # the database was restored to a time when they were not there
            await self._definitions.store_parts(submissions)
            return await self._database.call(function, *arguments)

    async def recall(self, scope: str, key: IdempotencyKey) -> Submitted | None:
        """The answer that was given under a key; KeyTaken when it was given to another request."""
        rows = await self._database.call("recall", scope, key.text, key.request)
        answer = read_submitted({**rows[0], "replayed": True, "rights": []}) if rows else None
        if isinstance(answer, KeyTaken):
            raise answer
        return answer

    async def find_repeats(self, submissions: Sequence[Submission]) -> list[bool]:
        """Whether each submission would be answered without a new job."""
        rows = await self._database.call("find_repeats", write_batch(submissions)[1])
        places = {row["place"] for row in rows}
        return [place in places for place in range(len(submissions))]

    async def definition(self, workflow_hash: str) -> Workflow:
        """The workflow that jobs were pinned to."""
        found = await self._value("definition", workflow_hash)
        if found is None:
            raise NotFound("workflow.definition_missing", f"no definition has the hash {workflow_hash}")
        return read_definition(found)

    async def take_rights(self, session: SessionId, limit: int, before: datetime | None = None) -> list[TakenRight]:
        """Take free rights; no timer ends when the server's clock is past `before`."""
        rows = await self._database.call("take_rights", session, limit, before)
        return [TakenRight(RightId(row["right_id"]), row["takes"]) for row in rows]

    async def free_rights(
        self, session: SessionId, rights: Sequence[TakenRight], *, reason: str, delay: timedelta
    ) -> None:
        """Free rights after a delay, with the reason why they could not be spent."""
        await self._database.call("free_rights", session, [right.id for right in rights], reason, delay)

    async def load_right(self, right: TakenRight, session: SessionId) -> RightView | None:
        """What planning needs, or None when the right was lost."""
        rows = await self._database.call("load_right", right.id, session, right.takes)
        return read_right(right, rows[0]) if rows else None

    async def apply(
        self, right: TakenRight, session: SessionId, view: RightView, transitions: Sequence[Transition]
    ) -> Applied:
        """Apply a plan and spend the right."""
        for transition in transitions:
            if isinstance(transition, OpenLane) and isinstance(transition.source.items, Items):
                for first, items in transition.source.items.arrays(STAGED_BYTES):
                    staged = (right.id, session, right.takes, transition.node, first, items)
                    if not await self._value("stage_items", *staged):
                        return Applied(ApplyResult.RIGHT_LOST, ())
        changes = encode([write_change(transition) for transition in transitions])
        (row,) = await self._database.call("apply", right.id, session, right.takes, view.version, changes)
        return Applied(ApplyResult(row["applied"]), tuple(TakenRight(RightId(made), 1) for made in row["rights"]))

    async def node_values(self, job_id: str, references: Sequence[Reference]) -> list[StoredValue | None]:
        """The values of references to nodes' outputs, each None when it does not exist."""
        parts = [[str(reference.path[0]), *map(str, reference.path[2:])] for reference in references]
        rows = await self._database.query("node_values", job_id=job_id, parts=encode(parts))
        return [StoredValue(**row) if row.pop("found") else None for row in rows]

    async def node_results(self, job_id: str, node: str, after: int) -> ResultPage | None:
        """The next results of a node's tasks, in order, after an index; None when there are no more."""
        rows = await self._database.call("node_results", job_id, node, after)
        return ResultPage(**rows[0]) if rows else None

    async def job_ends(self, session: SessionId, every: timedelta, job_ids: Sequence[str]) -> dict[str, JobEnd]:
        """Whether and when these jobs ended; those that are not there are left out."""
        rows = await self._database.call("job_ends", session, every, list(job_ids))
        return {row["job_id"]: JobEnd(JobState(row["state"]), row["ended_for"]) for row in rows}

    async def ring(self, queues: Sequence[str]) -> None:
        """Ring the doorbell of queues; a hint and no more (E12)."""
        await self._database.call("ring", list(queues))

    async def claim(self, session: SessionId, queues: Sequence[str], limit: int) -> list[Claim]:
        """Take up to this many tasks."""
        return read_claims(await self._value("claim", session, list(queues), limit, "{}", True))

    async def report(self, session: SessionId, reports: Sequence[Report]) -> tuple[list[Answer], list[TakenRight]]:
        """End attempts, a batch in one transaction."""
        (row,) = await self._database.call("report", session, write_reports(reports))
        return read_answers(row), read_rights(row)

    async def checkpoint(self, session: SessionId, attempt: Attempt, number: int, phase: str, state: str) -> bool:
        """Keep what an attempt saved, the state as JSON text; False when it is not the current one.

        `number` counts what the attempt saved: a call that comes late changes nothing.
        """
        (lane, place), attempted, token = attempt
        return bool(await self._value("checkpoint", session, lane, place, attempted, number, phase, state, token))

    async def turn(self, session: SessionId, reports: Sequence[Report], wanted: ClaimRequest) -> Turn:
        """Report and claim in one transaction; with nothing to report, wait for a lane that others are at."""
        queues, fast = list(wanted.queues), encode(dict(wanted.fast))
        if not reports:
            claims = await self._value("claim", session, queues, wanted.limit, fast, True)
            return Turn([], [], read_claims(claims))
        (row,) = await self._database.call("turn", session, write_reports(reports), queues, wanted.limit, fast)
        return Turn(read_answers(row), read_rights(row), read_claims(row["claims"]))

    async def claim_apart(self, session: SessionId, queues: Sequence[str]) -> list[Claim]:
        """Take one task; a lane from which none can be taken is held back until the next sweep, so that others can."""
        return read_claims(await self._value("claim_apart", session, list(queues)))

    async def reconcile(self, session: SessionId, in_hand: Sequence[InHand]) -> int:
        """Return tasks that the database assigns to the session but the process does not hold; how many.

        Only for who knows that no claim is under way: the heartbeat leaves young claims alone.
        """
        return int(await self._value("reconcile", session, write_in_hand(in_hand), None, timedelta(0), None))

    async def renew(self) -> None:
        """Replace every connection before the next call."""
        await self._database.renew()

    async def cancel(self, job_id: str, reason: str, by: str | None = None) -> tuple[JobState, bool]:
        """Cancel a job; the state it is in now, and whether this call cancelled it."""
        (row,) = await self._change("cancel_job", job_id, reason, by)
        if row["state"] is None:
            raise NotFound("job.not_found", f"there is no job {job_id}")
        return JobState(row["state"]), row["changed"]

    async def cancel_orphans(self) -> int:
        """Cancel child jobs whose task has ended; how many, of a bounded batch."""
        return await self._sweep.cancel_orphans()

    async def signal(
        self, job_id: str, node: str, payload: JsonObject, by: str, session: SessionId
    ) -> Verdict[SignalAnswer]:
        """Signal a gate."""
        (row,) = await self._change("signal", job_id, node, encode(payload), by, session)
        return read_verdict(SignalAnswer, row)

    async def retry(
        self, job_id: str, version: int, again: RetryPlan, session: SessionId, by: str | None = None
    ) -> Verdict[RetryAnswer]:
        """Begin a new generation of a job, if it is as it was when it was read."""
        kept = sorted(again.kept)
        data = encode({"kept": list(kept)})
        (row,) = await self._database.call("retry", job_id, version, list(again.nodes), kept, data, session, by)
        return read_verdict(RetryAnswer, row)

    async def spawn(self, claim: Claim, child: Submission, session: SessionId) -> Spawned | None:
        """Replace a claim by a child job; None when the claim was lost."""
        (head, tail), workflow = child.identity, child.workflow
        start = (
            None
            if child.first_transitions is None
            else encode([write_change(transition) for transition in child.first_transitions])
        )
        rows = await self._database.call(
            "spawn", session, claim.key.lane, claim.key.place, claim.attempt, head, tail, child.scope, workflow.id,
            workflow.hash, workflow.text, [node.name for node in workflow.nodes], child.parameters_text, start,
            claim.token, child.trace,
        )  # fmt: skip
        if not rows:
            return None
        return Spawned(rows[0]["job_id"], tuple(read_rights(rows[0])))

    async def take_children(self, session: SessionId, limit: int) -> list[ChildJob]:
        """Take child jobs that ended, to report for them."""
        return await take_children(self._database, session, limit)

    async def end_child(self, child: ChildJob, report: Report, session: SessionId) -> list[TakenRight]:
        """Report for a child job, once; the rights that come of it."""
        (row,) = await self._database.call("end_child", session, child.id, write_report(report), child.fence.token)
        return read_rights(row)

    async def limit(self, kind: LimitKind, name: str, change: LimitChange, by: str) -> Limit | None:
        """Set or remove a limit; returns the limit as it is now."""
        rows = await self._database.call("limit", kind, name, encode(change), by)
        if not rows:
            while await self._value("heal_holds", BATCH_HOLDS, 0, LAST_LANE):
                pass
        return Limit(**{**rows[0], "kind": LimitKind(rows[0]["kind"])}) if rows else None

    async def change_writer(self, collection: str, writer: str, by: ActionBy, *, adds: bool) -> bool:
        """Add or remove a platform that may publish into a collection; False if there is none of that owner."""
        known = by.owner, by.actor, by.correlation_id
        return bool(await self._value("change_writer", collection, writer, adds, *known))

    async def drain(self, session: SessionId, *, draining: bool) -> bool:
        """Stop a session from claiming, or let it claim again; False when there is no such live session."""
        return bool(await self._value("drain", session, draining))

    async def sweep(
        self, session: SessionId, every: timedelta, grace: timedelta, latest: Callable[[], datetime]
    ) -> Swept:
        """One round of the sweeper; nothing times out when the server's clock is past `latest`."""
        return await self._sweep.round(session, every, grace, latest)

    async def read_clock(self) -> ClockReading:
        """The server's time."""
        (row,) = await self._database.call("read_clock")
        return ClockReading(**row)

    async def find_lead(self) -> timedelta:
        """How far the latest recorded time is ahead of the server's clock."""
        return await self._value("find_lead") or timedelta(0)

    async def step_clock(
        self, session: SessionId, step: timedelta, shifted: timedelta, elapsed: timedelta | None
    ) -> bool:
        """Move what was scheduled with a step of the clock; False when another did it, or there was no step.

        `elapsed` is how long ago the clock was right; None: nobody knows, and what is ahead of it is moved.
        """
        return bool(await self._value("step_clock", session, step, shifted, elapsed))

    async def _change(self, function: str, job_id: str, *arguments: object) -> list[DictRow]:
        """Call what waits for a job's row, which a handler holds while it publishes; job.busy when that takes long."""
        for _ in range(LOCK_WAITS):
            try:
                return await self._database.call(function, job_id, *arguments)
            except Unavailable as error:
                if not isinstance(error.__cause__, LockNotAvailable):
                    raise
        raise Unavailable("job.busy", f"job {job_id} is held by a task that publishes", remedy="Try again.")

    async def _value(self, function: str, *arguments: object) -> Any:  # each caller says which type
        rows = await self._database.call(function, *arguments)
        return next(iter(rows[0].values())) if rows else None


def _declare(kind: LimitKind, name: str, breaker: Breaker) -> JsonObject:
    """A breaker as app.declare_breakers takes it."""
    return {"kind": kind, "name": name, **vars(breaker)}
