"""What people and programs ask: read-only, in the reader's role, with its own small pool and short timeouts."""

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.store.published.files import PostgresFiles
from anabranch.adapters.postgres.store.published.items import PostgresItems
from anabranch.adapters.postgres.store.rows import Row, index_of, place, read_cursor, read_definition
from anabranch.canonical import Json, JsonObject
from anabranch.codes import with_remedy
from anabranch.contract.answer import read
from anabranch.contract.control import Limit, Queue, Worker
from anabranch.contract.insight import (
    AttemptTime,
    FailingWorkflow,
    FailureGroup,
    HourCount,
    Overview,
    WaitingGate,
    WaitingTasks,
    WorkflowVersion,
)
from anabranch.contract.jobs import JobError, Progress, SavedCheckpoint, TaskCounts
from anabranch.contract.stack import TaskRow
from anabranch.engine.failure import Failure
from anabranch.engine.model import (
    TERMINAL_STATES,
    Event,
    Job,
    JobState,
    LimitKind,
    NodeState,
    PendingEnd,
    SessionKind,
    Tombstone,
)
from anabranch.engine.read_models import DeadLetter, JobDetail, JobHead, LabelledJob, NodeDetail, TaskDetail, Trace
from anabranch.engine.task_parameters import Definitions, TaskValues, fill_in
from anabranch.errors import Conflict, NotFound
from anabranch.storage.large_results import Results
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import ExpressionError
from anabranch.workflows.mistakes import nearest, quote
from anabranch.workflows.nodes import GateNode

__all__ = ["PostgresReads"]

MAX_CANDIDATES = 5
NEWEST_JOBS = 10_000  # of which the last day is counted: it costs the same however many jobs there are


class PostgresReads:
    """Reads jobs, tasks and sessions."""

    def __init__(self, url: str, results: Results, *, name: str, connections: int = 4) -> None:
        """Nothing is opened yet; large results are brought back from where they were put aside."""
        self._results = results
        self._definitions = Definitions(self)
        self._database = Database(url, Role.READER, name=name, size=connections, checked=False)
        self._platform: str | None = None

    async def open(self) -> None:
        """Start connecting."""
        await self._database.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._database.close()

    def seen_by(self, platform: str | None) -> "PostgresReads":
        """The same for a platform, which finds its own rows only; None: all. What is others' is not there."""
        seen = copy.copy(self)
        seen._platform = platform
        return seen

    def files(self) -> PostgresFiles:
        """What is published, read over this pool."""
        return PostgresFiles(self._database, self._platform)

    def items(self) -> PostgresItems:
        """Published items and their manifests, read over this pool."""
        return PostgresItems(self._database, self._platform)

    async def job(self, job_id: str) -> JobDetail:
        """A job with its nodes and its whole result, by its id or a unique prefix."""
        return await self.detail(await self.find(job_id))

    async def detail(self, job: LabelledJob) -> JobDetail:
        """A job that was found, with its nodes and its whole result."""
        if job.result is not None:
            async with self._or_purged(job.id):
                job = replace(job, result=await asyncio.to_thread(self._results.bring_all_back, job.result))
        parent = await self._database.query("parent", parent=job.parent) if job.parent else ()
        reasons = await self._database.query("waiting_for", job=job.id) if job.state not in TERMINAL_STATES else ()
        waiting_for = tuple(row["reason"] for row in reasons)
        nodes = await self.nodes(job.id)
        if any(node.is_waiting for node in nodes):
            gates = {node.name: node for node in (await self.workflow(job)).nodes if isinstance(node, GateNode)}
            nodes = [replace(node, gate=gates.get(node.name)) if node.is_waiting else node for node in nodes]
        outputs = {row["name"]: row["output"] for row in await self._database.query("node_outputs", job=job.id)}
        return JobDetail(job, nodes, parent[0]["job_id"] if parent else None, waiting_for, outputs)

    async def find(self, job_id: str) -> LabelledJob:
        """The row of a job, by its id or a unique prefix."""
        return _job(await self._find("job", job_id))

    async def find_newer(self, job: Job) -> str | None:
        """The newest job of the same parameters, if it is another."""
        found = await self._database.query("newer_of", job=job.id)
        return found[0]["job_id"] if found else None

    async def head(self, job_id: str) -> JobHead:
        """The status of a job, by its id or a unique prefix."""
        return _head(await self._find("job_head", job_id))

    async def nodes(self, job: int) -> list[NodeDetail]:
        """The nodes of a job, in order."""
        found = (await self.nodes_of([job]))[job]
        if not found:
            await self._refuse_purged("tombstone_of", job=job)
        return found

    async def nodes_of(self, jobs: Sequence[int]) -> dict[int, list[NodeDetail]]:
        """The nodes of several jobs, each one's in order, by one statement."""
        found: dict[int, list[NodeDetail]] = {job: [] for job in jobs}
        for row in await self._database.query("nodes", jobs=list(jobs)):
            found[row.pop("job")].append(_node(row))
        return found

    async def heads(self, jobs: Sequence[int]) -> list[JobHead]:
        """The statuses of jobs, by one statement; purged ones are left out."""
        rows = await self._database.query("heads", jobs=list(jobs))
        return [_head(row) for row in rows]

    async def require_node(self, job: int, name: str) -> None:
        """Refuse the name of a node that a job does not have, and name the nearest."""
        known = [node.name for node in await self.nodes(job)]
        if name not in known:
            remedy = f"{nearest(name, known)} Its nodes are {', '.join(known)}.".strip()
            raise NotFound("node.not_found", f"the job has no node {quote(name)}", remedy=remedy)

    async def workflow(self, job: Job) -> Workflow:
        """The workflow that a job was pinned to (E16)."""
        return await self._definitions.get(job.workflow_hash)

    async def jobs(
        self,
        *,
        limit: int,
        before: int | None = None,
        state: JobState | None = None,
        workflow: str | None = None,
        parent: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[LabelledJob]:
        """Jobs, the newest first; those that run for a job, if it is named, and that have all the labels."""
        rows = await self._database.query(
            "jobs", limit=limit, before=before, state=state, workflow=workflow, parent=parent, platform=self._platform,
            label_names=list(labels) if labels else None, label_values=list(labels.values()) if labels else None,
        )  # fmt: skip
        return [_job(row) for row in rows]

    async def tasks(
        self, job: int, *, limit: int, after: str | None, node: str | None, status: str | None, whole: bool = True
    ) -> list[TaskDetail]:
        """The tasks of a job, in order; with their `whole` results, or references to large ones."""
        lane, position = read_cursor(after, 2)
        rows = await self._list("tasks", job=job, lane=lane, position=position, node=node, status=status, limit=limit)
        sources = await self._database.query("lane_values", lanes=list({row["lane"] for row in rows}))
        await self._refuse_purged("tombstone_of", job=job)  # between the two queries
        filled = {source["lane"]: source for source in sources}
        for row in rows:
            item = row.pop("item")
            if source := filled.get(row["lane"]):
                row["parameters"] = await self._fill_in(row, source, item)
        tasks = [_task(row) for row in rows]
        if not whole:
            return tasks
        async with self._or_purged(job):
            return await asyncio.to_thread(lambda: [self._whole(task) for task in tasks])

    async def task_rows(self, job: int, *, limit: int, after: str | None) -> list[TaskRow]:
        """The rows of a job's tasks, in order."""
        lane, position = read_cursor(after, 2)
        rows = await self._list("task_rows", job=job, lane=lane, position=position, limit=limit)
        return [TaskRow(**row) for row in rows]

    async def events(self, job: int, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """What happened to a job, in order."""
        return [Event(**row) for row in await self._list("events", job=job, after=after, limit=limit)]

    async def logs(
        self,
        job: int,
        *,
        limit: int,
        after: str | None = None,
        node: str | None = None,
        index: str | None = None,
        attempt: int | None = None,
        status: str | None = None,
    ) -> list[Trace]:
        """What the attempts of a job printed and measured, in order: all, or those that are running or failed."""
        lane, position, last = read_cursor(after, 3)
        number = index_of(index) if index else None
        rows = await self._list(
            "running_logs" if status == "running" else "logs",
            job=job, lane=lane, position=position, last=last, node=node, index=index, attempt=attempt,
            number=number if isinstance(number, int) and number < 2**31 else None,
            failed=status == "failed", limit=limit,
        )  # fmt: skip
        return [_trace(row) for row in rows]

    async def failed_logs(self, job: int, *, limit: int) -> list[Trace]:
        """What the attempts of a job that failed printed and measured, in order."""
        return [_trace(row) for row in await self._database.query("failed_logs", job=job, limit=limit)]

    async def attempt_times(self, job: int, *, limit: int) -> list[AttemptTime]:
        """When the attempts of a job's tasks waited and ran: of each node at most this many of each kind."""
        rows = await self._list("attempt_times", job=job, limit=limit)
        return [AttemptTime(**{**row, "index": index_of(row["index"])}) for row in rows]

    async def failure_groups(self, job: int, *, limit: int) -> list[FailureGroup]:
        """The failed tasks of a job by what went wrong, the largest groups first."""
        rows = await self._database.query("failure_groups", job=job, limit=limit)
        return [_group(row) for row in rows]

    async def overview(self) -> Overview:
        """What goes on and what went wrong in the last day, of the newest jobs."""
        seen = {"platform": self._platform}
        ask = self._database.query
        counts, hours, failing, tasks, gates = await asyncio.gather(
            ask("open_counts", **seen),
            ask("throughput", **seen, newest=NEWEST_JOBS),
            ask("failing_workflows", **seen, newest=NEWEST_JOBS),
            ask("oldest_waiting", **seen),
            ask("waiting_gates", **seen),
        )
        return Overview(
            {row["state"]: row["jobs"] for row in counts},
            tuple(HourCount(row["hour"], JobState(row["state"]), row["jobs"]) for row in hours),
            tuple(FailingWorkflow(**row) for row in failing),
            tuple(WaitingTasks(**row) for row in tasks),
            tuple(WaitingGate(**row) for row in gates),
        )

    async def workflow_versions(self, workflow: str) -> list[WorkflowVersion]:
        """The definitions of a workflow that its newest jobs were pinned to."""
        rows = await self._database.query("workflow_versions", workflow=workflow, platform=self._platform)
        return [WorkflowVersion(**row) for row in rows]

    async def server(self) -> dict[str, Json]:
        """Which server this is, and how far its schema is migrated."""
        (row,) = await self._database.query("server")
        return row

    async def sessions(self) -> list[Worker]:
        """The live sessions."""
        rows = await self._database.query("sessions")
        words = ({**row, "kind": SessionKind(row["kind"]), "queues": tuple(row["queues"])} for row in rows)
        return [Worker(last_beat=row.pop("beat_at"), **row) for row in words]

    async def queues(self) -> list[Queue]:
        """The queues with what waits and runs in them, by name."""
        return [Queue(**row) for row in await self._database.query("queues")]

    async def limits(self) -> list[Limit]:
        """The limits and pauses."""
        rows = await self._database.query("limits")
        return [Limit(**{**row, "kind": LimitKind(row["kind"])}) for row in rows]

    async def dead_letters(
        self,
        *,
        limit: int,
        after: str | None = None,
        workflow: str | None = None,
        handler: str | None = None,
        code: str | None = None,
        job_id: str | None = None,
    ) -> list[DeadLetter]:
        """The tasks that failed for good, the newest first."""
        lane, position = read_cursor(after, 2) if after else (2**63 - 1, -1)
        rows = await self._database.query(
            "dead_letters", lane=lane, position=position, workflow=workflow, handler=handler, code=code, job=job_id,
            platform=self._platform, limit=limit,
        )  # fmt: skip
        return [_letter(row) for row in rows]

    async def definition(self, workflow_hash: str) -> Workflow:
        """The workflow that jobs were pinned to."""
        (row,) = await self._database.call("definition", workflow_hash)
        return read_definition(row["definition"])

    async def _find(self, query: str, job_id: str) -> Row:
        """The one row of a query for a job."""
        if not job_id or set(job_id) - set("0123456789abcdef"):
            raise NotFound("job.not_found", f"{job_id!r} is not a job id", remedy="List them with `anabranch jobs`.")
        rows = await self._database.query(query, job_id=job_id, platform=self._platform)
        if not rows:
            await self._refuse_purged("tombstone", job_id=job_id, platform=self._platform)
            raise NotFound("job.not_found", f"there is no job {job_id}", remedy="List them with `anabranch jobs`.")
        if len(rows) > 1:
            alike = await self._database.query("alike", job_id=job_id, platform=self._platform)
            raise _ambiguous(job_id, [row["job_id"] for row in alike])
        return rows[0]

    async def _list(self, name: str, *, job: int, **given: object) -> list[Row]:
        """The rows of a query about a job; NotFound if the job was purged meanwhile (O5)."""
        rows = await self._database.query(name, job=job, **given)
        if not rows:
            await self._refuse_purged("tombstone_of", job=job)
        return rows

    @asynccontextmanager
    async def _or_purged(self, job: int) -> AsyncIterator[None]:
        """Read files of a job; where one is gone because the job is, say that."""
        try:
            yield
        except NotFound:
            await self._refuse_purged("tombstone_of", job=job)
            raise

    async def _refuse_purged(self, query: str, **given: object) -> None:
        rows = await self._database.query(query, **given)
        found = [Tombstone(**{**row, "state": JobState(row["state"])}) for row in rows]
        if len(found) > 1:
            raise _ambiguous(str(given["job_id"]), [one.job_id for one in found])
        if found:
            raise _purged(found[0])

    async def _fill_in(self, row: Row, lane: Row, item: Json) -> JsonObject:
        """A task's parameters as its handler gets them; nothing where they can't be filled in."""
        node = (await self._definitions.get(lane["workflow_hash"])).node(row["node"])
        try:
            return fill_in(
                node,
                TaskValues(lane["job_id"], lane["inputs"], lane["values"], item, index_of(row["index"]), lane["tick"]),
            )
        except ExpressionError:
            return {}

    def _whole(self, task: TaskDetail) -> TaskDetail:
        return replace(task, result=self._results.bring_back(task.result))


def _ambiguous(job_id: str, alike: Sequence[str]) -> Conflict:
    shown = ", ".join(one[: max(12, len(job_id) + 4)] for one in alike[:MAX_CANDIDATES])
    more = ", and more" if len(alike) > MAX_CANDIDATES else ""
    return Conflict("job.ambiguous", f"several jobs begin with {job_id}: {shown}{more}", remedy="Give more of the id.")


def _purged(gone: Tombstone) -> NotFound:
    return NotFound(
        "job.purged",
        f"job {gone.job_id} ({gone.workflow}) was purged at {gone.purged_at:%Y-%m-%dT%H:%M:%SZ};"
        f" it was {gone.state} at {gone.finished_at:%Y-%m-%dT%H:%M:%SZ}",
        remedy="Submit it again to run it.",
    )


def _job(row: Row) -> LabelledJob:
    ending = PendingEnd(JobState(row["ending"])) if row["ending"] else None
    known = {**row, "state": JobState(row["state"]), "error": Failure.read(row["error"]), "ending": ending}
    return LabelledJob(**known)


def _head(row: Row) -> JobHead:
    return JobHead(row["job"], JobState(row["state"]), row["last_event"])


def _node(row: Row) -> NodeDetail:
    tasks = TaskCounts(*(row.pop(name) for name in TaskCounts.__match_args__))
    said = tuple(read(Progress, one) for one in row.pop("said") or ())
    state, error = NodeState(row.pop("state")), Failure.read(row.pop("error"))
    return NodeDetail(**row, state=state, tasks=tasks, said=said, error=error)


def _task(row: Row) -> TaskDetail:
    progress, error = row["progress"] and read(Progress, row["progress"]), Failure.read(row["error"])
    saved = row["checkpoint"] and read(SavedCheckpoint, row["checkpoint"])
    return TaskDetail(**{**place(row, "lane", "position"), "progress": progress, "checkpoint": saved, "error": error})


def _letter(row: Row) -> DeadLetter:
    state, error = JobState(row["job_state"]), Failure.read(row["error"])
    return DeadLetter(**{**place(row, "lane", "position"), "job_state": state, "error": error})


def _group(row: Row) -> FailureGroup:
    error = read(JobError, {"remedy": "", "message": "", **with_remedy(row["error"] or {"code": "unknown"})})
    indexes = tuple(map(index_of, row["indexes"]))
    return FailureGroup(**{**row, "fingerprint": row["fingerprint"][:12], "indexes": indexes, "error": error})


def _trace(row: Row) -> Trace:
    return Trace(**{**place(row, "lane", "position", "attempt"), "attempt": row["attempt"]})
