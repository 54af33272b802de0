"""Control of jobs, queues and workers: reads the status, decides, and calls the transition."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace

from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import JsonObject
from anabranch.contract.answer import read
from anabranch.contract.control import Limit, NodeAgain, Replay, Retry
from anabranch.contract.jobs import JobError
from anabranch.engine.advancing.advancer import end_orphans
from anabranch.engine.gate_answers import check_answer
from anabranch.engine.job_retry import RetryPlan, choose_retry
from anabranch.engine.model import (
    TERMINAL_STATES,
    Job,
    JobState,
    LimitChange,
    LimitKind,
    RetryAnswer,
    SessionId,
    SignalAnswer,
)
from anabranch.engine.ports import TakenRight
from anabranch.engine.read_models import JobDetail, NodeDetail
from anabranch.errors import AnabranchError, Conflict, NotFound, Unavailable
from anabranch.workflows.definition import Workflow
from anabranch.workflows.mistakes import nearest
from anabranch.workflows.nodes import GateNode

__all__ = ["Controls", "RetryChoice"]

MAX_ATTEMPTS = 5


@dataclass(frozen=True)
class RetryChoice:
    """What to run again: the failed tasks of the job or of some nodes, or one node and all behind it."""

    nodes: tuple[str, ...] = ()
    from_node: str | None = None


@dataclass(frozen=True)
class Controls:
    """Retry, cancel, signal, limit, pause and drain, under the session of this process; `by` is who does it (P7)."""

    store: PostgresStore
    reads: PostgresReads
    session: Callable[[], SessionId]
    start: Callable[[Sequence[TakenRight]], None]  # spends rights
    later: Callable[[Coroutine[None, None, None]], None]  # runs work in the background

    def seen_by(self, platform: str | None) -> "Controls":
        """The same for a platform, which controls its own jobs only; None: all."""
        return replace(self, reads=self.reads.seen_by(platform))

    async def cancel(self, job_id: str, reason: str, by: str) -> JobDetail:
        """Cancel a job and those it runs, by its id or a start of it; Conflict when it has ended (E5), or ends.

        Of several callers at once, one cancels it, and the others meet a job that has ended; but all get a job that is
        cancelled once its cleanup nodes have ended.
        """
        job = await self.reads.find(job_id)
        if job.state in TERMINAL_STATES:
            raise _ended(job.job_id, job.state)
        state, changed = await self.store.cancel(job.job_id, reason, by)
        if not changed:
            found = await self.reads.job(job.job_id)
            ending = found.job.ending
            if ending and ending.state is JobState.CANCELLED:
                return found
            raise _ended(job.job_id, ending.state if ending else state, is_ending=ending is not None)
        if (await self.reads.workflow(job)).parts and await self.store.cancel_orphans():
            self.later(end_orphans(self.store))  # there may be very many
        return await self.reads.job(job.job_id)

    async def plan_retry(self, job_id: str, wanted: RetryChoice) -> Retry:
        """What a retry would run; nothing is changed. Conflict when the job can't be retried."""
        job, again, nodes = await self._choose(job_id, wanted)
        if job.parent is not None:
            raise _unretryable(job, RetryAnswer.CHILD)
        await self._require_newest(job)
        return _plan(job, again, nodes, dry_run=True)

    async def retry(self, job_id: str, wanted: RetryChoice, by: str) -> Retry:
        """Run again what failed, in a new generation; Conflict when the job can't be retried."""
        for _ in range(MAX_ATTEMPTS):
            job, again, nodes = await self._choose(job_id, wanted)
            verdict = await self.store.retry(job.job_id, job.last_event, again, self.session(), by)
            if verdict.right:
                self.start([verdict.right])
                return _plan(job, again, nodes, dry_run=False)
            if verdict.answer is RetryAnswer.OLDER:
                await self._require_newest(job)
            elif verdict.answer is not RetryAnswer.MOVED:
                raise _unretryable(job, verdict.answer)
        raise Unavailable("job.busy", f"job {job_id} changes all the time", remedy="Try again.")

    async def signal(self, job_id: str, node: str, payload: JsonObject, by: str) -> bool:
        """Give a gate its signal; False when it has received the same before, Conflict when it has another.

        A signal that is not the answer that the gate declares is an InputError, and the gate goes on waiting.
        """
        job = await self.reads.find(job_id)
        payload = check_answer(_require_gate(await self.reads.workflow(job), node), payload)
        verdict = await self.store.signal(job.job_id, node, payload, by, self.session())
        if verdict.right:
            self.start([verdict.right])
        if verdict.answer in (SignalAnswer.ACCEPTED, SignalAnswer.SAME):
            return verdict.answer is SignalAnswer.ACCEPTED
        gate, remedy = f"{node} of job {job.job_id[:12]}", f"See `anabranch events {job.job_id[:12]}`."
        if verdict.answer is SignalAnswer.OTHER:
            raise Conflict("gate.other", f"{gate} has received another signal before, which counts", remedy=remedy)
        raise Conflict("gate.ended", f"{gate} is over", remedy=remedy)

    async def limit(self, kind: LimitKind, name: str, change: LimitChange, by: str) -> Limit | None:
        """Set, pause, resume or remove a limit; returns the limit as it is now."""
        return await self.store.limit(kind, name, change, by)

    async def drain(self, session: int, *, draining: bool) -> None:
        """Let a worker take nothing more, or again."""
        if not await self.store.drain(SessionId(session), draining=draining):
            raise NotFound(
                "worker.not_found", f"there is no live session {session}", remedy="List them with `anabranch workers`."
            )

    async def replay(
        self,
        *,
        workflow: str | None,
        handler: str | None,
        code: str | None,
        job_ids: Sequence[str],
        limit: int,
        by: str,
    ) -> list[Replay]:
        """Retry the jobs of dead letters, each for the nodes that have some; at most so many letters are looked at."""
        found: dict[str, dict[str, None]] = {}
        asked: list[str | None] = [(await self.reads.find(job_id)).job_id for job_id in job_ids]
        for job_id in asked or [None]:
            letters = await self.reads.dead_letters(
                limit=limit, workflow=workflow, handler=handler, code=code, job_id=job_id
            )
            for letter in letters:
                found.setdefault(letter.job_id, {})[letter.node] = None
        named = [job_id for job_id in asked if job_id is not None and job_id not in found]
        replayed = [await self._replay(name, tuple(nodes), by) for name, nodes in found.items()]
        return [*replayed, *[await self._explain_nothing(job_id) for job_id in named]]

    async def _replay(self, job_id: str, nodes: tuple[str, ...], by: str) -> Replay:
        try:
            await self.retry(job_id, RetryChoice(nodes), by)
        except AnabranchError as error:
            return _not_replayed(job_id, nodes, error)
        return Replay(job_id, nodes, replayed=True, error=None)

    async def _explain_nothing(self, job_id: str) -> Replay:
        """Why nothing is replayed of a job that was named."""
        try:
            await self._require_newest(await self.reads.find(job_id))
        except AnabranchError as error:
            return _not_replayed(job_id, (), error)
        nothing = Conflict("retry.nothing_failed", f"job {job_id[:12]} has no dead letters of this choice")
        return _not_replayed(job_id, (), nothing)

    async def _require_newest(self, job: Job) -> None:
        if newest := await self.reads.find_newer(job):
            said = f"job {job.job_id[:12]} has a newer one of the same parameters, {newest[:12]}"
            remedy = f"See it with `anabranch status {newest[:12]}`; if it failed too, retry that one."
            raise Conflict("retry.older", said, remedy=remedy)

    async def _choose(self, job_id: str, wanted: RetryChoice) -> tuple[Job, RetryPlan, list[NodeDetail]]:
        job = await self.reads.find(job_id)
        if job.state not in TERMINAL_STATES:
            raise _unretryable(job, RetryAnswer.OPEN)
        workflow, nodes = await self.reads.workflow(job), await self.reads.nodes(job.id)
        states, failed = {node.name: node.state for node in nodes}, {node.name: node.tasks.failed for node in nodes}
        again = choose_retry(workflow, states, failed, nodes=wanted.nodes, from_node=wanted.from_node)
        return job, again, nodes


def _plan(job: Job, again: RetryPlan, nodes: Sequence[NodeDetail], *, dry_run: bool) -> Retry:
    known = {node.name: node for node in nodes}
    chosen = tuple(_again(known[name], name in again.kept) for name in again.nodes)
    return Retry(job.job_id, job.generation + 1, dry_run, chosen)


def _again(node: NodeDetail, is_kept: bool) -> NodeAgain:
    tasks = node.tasks
    if is_kept and tasks.total:
        return NodeAgain(node.name, "failed tasks", tasks.total - tasks.completed, tasks.completed)
    return NodeAgain(node.name, "whole", None, 0)


def _not_replayed(job_id: str, nodes: tuple[str, ...], error: AnabranchError) -> Replay:
    reason = {"code": error.code, "message": error.message, "remedy": error.remedy}
    return Replay(job_id, nodes, replayed=False, error=read(JobError, reason))


def _unretryable(job: Job, answer: RetryAnswer) -> AnabranchError:
    name = f"job {job.job_id[:12]}"
    if answer is RetryAnswer.OPEN:
        remedy = f"Cancel it first: `anabranch cancel {job.job_id[:12]}`."
        return Conflict("retry.open", f"{name} is {job.state}: only what has ended can be retried", remedy=remedy)
    if answer is RetryAnswer.CHILD:
        return Conflict("retry.child", f"{name} was run by another job", remedy="Retry that one: its `parent`.")
    return NotFound("job.not_found", f"{name} is gone", remedy="List jobs with `anabranch jobs`.")


def _require_gate(workflow: Workflow, node: str) -> GateNode:
    gates = {one.name: one for one in workflow.nodes if isinstance(one, GateNode)}
    if node not in gates:
        what = "is not a gate" if node in workflow.names else "is not a node"
        hint = nearest(node, list(gates)) or f"Its gates: {', '.join(gates) or 'none'}."
        raise NotFound("gate.not_found", f"{node!r} {what} of workflow {workflow.id}", remedy=hint)
    return gates[node]


def _ended(job_id: str, state: JobState, *, is_ending: bool = False) -> Conflict:
    said = f"ends: it is {state} once its cleanup is done" if is_ending else f"has ended: it is {state}"
    return Conflict(
        "job.ended",
        f"job {job_id} {said}",
        remedy=f"Nothing is left of it to cancel; see it with `anabranch status {job_id[:12]}`.",
    )
