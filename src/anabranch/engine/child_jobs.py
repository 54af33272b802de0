"""Tasks that run child jobs: started by the worker that claims one, reported by the process that sees it end."""

import asyncio

import structlog

from anabranch.canonical import JsonObject
from anabranch.engine.failure import Failure, describe_error, next_delay
from anabranch.engine.model import ChildJob, Claim, Ended, JobState, Report, SessionId
from anabranch.engine.ports import JobStore, Refused, SessionGone, Spawned, TakenRight, TaskQueue
from anabranch.engine.registry import Registry
from anabranch.engine.submitting.submission import Submission
from anabranch.engine.task_parameters import Definitions
from anabranch.errors import AnabranchError, Unavailable
from anabranch.storage.large_results import Results
from anabranch.workflows.definition import Workflow
from anabranch.workflows.stages import Declaration

__all__ = ["ChildJobs", "collect_children", "is_child_job"]

log = structlog.get_logger()
MAX_BATCH_CHILDREN = 50
MAX_UNAVAILABLE = 3  # then it is the database that is away


def is_child_job(claim: Claim) -> bool:
    """Whether a task runs a child job."""
    return claim.lane.shape.workflow is not None


class ChildJobs:
    """Begins child jobs for one session."""

    def __init__(self, queue: TaskQueue, registry: Registry, definitions: Definitions, session: SessionId) -> None:
        """With these parts; definitions are the pinned ones."""
        self._queue = queue
        self._registry = registry
        self._definitions = definitions
        self._session = session

    async def spawn(self, claim: Claim, params: JsonObject, trace: str | None = None) -> Spawned | None:
        """Start the child job of a claim; None when the claim was lost, InputError when its parameters are wrong."""
        lane = claim.lane
        workflow = await self._definitions.get(lane.shape.workflow or "")
        known = self._registry.declarations.get(workflow.id)
        declared = known if known and known.workflow.hash == workflow.hash else Declaration(workflow)
        scope = f"job:{lane.job_id}/{lane.node}/{claim.index}/{lane.generation}"
        checked = await asyncio.to_thread(declared.check, _leave_out_nulls(workflow, params))
        child = Submission(
            workflow, checked, scope, workflow.priority, False, lane.correlation_id,
            begins=True, tick=lane.tick, trace=trace,
        )  # fmt: skip
        return await self._queue.spawn(claim, child.sound(), self._session)


def _leave_out_nulls(workflow: Workflow, params: JsonObject) -> JsonObject:
    """The parameters without nulls for inputs that are not required: they come from optional references."""
    declared = workflow.inputs or {}
    optional = {name for name, wanted in declared.items() if not wanted.required and wanted.type != "any"}
    return {name: value for name, value in params.items() if value is not None or name not in optional}


async def collect_children(store: JobStore, session: SessionId, results: Results) -> list[TakenRight]:
    """Report ended child jobs to their tasks; returns the new rights.

    One that can't be reported does not block the others (E10): it is taken again when the session's lease expires.
    """
    rights: list[TakenRight] = []
    failed = 0
    for child in await store.take_children(session, MAX_BATCH_CHILDREN):
        try:
            report = await asyncio.to_thread(_report, child, results)
        except (OSError, Unavailable) as error:  # another process, or this one later, takes it again
            log.warning("child.unreadable", job=child.job_id, reason=str(error))
            continue
        try:
            rights += await _end_child(store, child, report, session)
        except SessionGone:
            raise
        except AnabranchError as error:
            log.warning("child.not_reported", job=child.parent_id, child=child.job_id, reason=error.message)
            failed += error.code == "database.unreachable"
            if failed >= MAX_UNAVAILABLE:
                break
    return rights


async def _end_child(store: JobStore, child: ChildJob, report: Report, session: SessionId) -> list[TakenRight]:
    try:
        return await store.end_child(child, report, session)
    except Refused as error:
        return await store.end_child(child, _failed(child, describe_error(error)), session)


def _report(child: ChildJob, results: Results) -> Report:
    if child.state is not JobState.COMPLETED:
        return _failed(child, _failure(child))
    try:
        return _completed(child, results)
    except (OSError, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001  # a poison job hurts only itself (E10)
        return _failed(child, describe_error(error))


def _completed(child: ChildJob, results: Results) -> Report:
    name = f"{child.fence.key.lane}-{child.fence.key.place}-{child.fence.number}"
    body, reference = results.copy(child.parent_id, child.node, name, child.result)
    if reference is not None:
        return Report(child.fence, Ended.REFERENCED, reference)
    return Report(child.fence, Ended.COMPLETED, body)


def _failed(child: ChildJob, failure: Failure) -> Report:
    delay = next_delay(child.policy.retry, child.failures, failure)
    return Report(child.fence, Ended.FAILED if delay is None else Ended.RETRY, failure.to_text(), delay)


def _failure(child: ChildJob) -> Failure:
    """The failure of a task whose child job failed; retried by the node's policy, unless the job was cancelled."""
    name, reason = f"job {child.job_id[:12]}", child.error.message if child.error else ""
    code, message, category = (
        ("child.cancelled", f"{name} was cancelled", "permanent")
        if child.state is JobState.CANCELLED
        else ("child.failed", f"{name} failed: {reason}", "child")
    )
    return Failure(code=code, message=message, category=category, job_id=child.job_id, cause=child.error)
