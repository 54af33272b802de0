"""Run one attempt: a handler, or a job type's planner or aggregator. An exception becomes an error that is kept."""

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.canonical import Json, JsonObject, encode
from anabranch.engine.exhaustion import is_exhausted, is_unanswered
from anabranch.engine.failure import Failure, describe_error
from anabranch.engine.model import Claim, Purpose
from anabranch.engine.registry import Registry
from anabranch.engine.worker.context import CURRENT_TASK, Context, TaskFacts, WorkerLink
from anabranch.engine.worker.folding import fold_results
from anabranch.engine.worker.handler import call_handler, check_result
from anabranch.engine.worker.handler_resources import NO_RESOURCES, HandlerResources
from anabranch.engine.worker.tracebacks import format_traceback
from anabranch.errors import ContractViolationError, DefinitionError, Interrupted, TaskError
from anabranch.storage.large_results import Results, is_reference
from anabranch.workflows.nodes import Folding
from anabranch.workflows.work import Handler

__all__ = ["Call", "Outcome", "perform", "perform_async"]


@dataclass(slots=True)
class Call:
    """All that an attempt needs; it travels to the process that runs it."""

    purpose: Purpose
    handler: str
    workflow: str
    facts: TaskFacts
    previous: Sequence[Json] | None = None
    folding: Sequence[Folding] | None = None
    skipped: Sequence[str] = ()

    @property
    def id(self) -> tuple[str, int]:
        """The attempt that it is for."""
        return self.facts.task_id, self.facts.attempt

    @property
    def needs_workflow(self) -> bool:
        """Whether a job type's planner or aggregator runs, which its workflow knows."""
        return self.purpose is not Purpose.WORK and self.folding is None

    @classmethod
    def of(
        cls,
        claim: Claim,
        params: JsonObject,
        scratch: str,
        results: Results,
        previous: Sequence[Json] | None = None,
        traceparent: str | None = None,
    ) -> "Call":
        """The call of a claimed task, with its parameters and the previous results."""
        if previous is not None and claim.lane.purpose is Purpose.WORK:
            params = {**params, "previous_results": previous}  # type: ignore[dict-item]  # JSON, but for its size
        facts = TaskFacts(
            job_id=claim.lane.job_id,
            task_id=claim.task_id,
            node_id=claim.lane.node,
            index=claim.index,
            attempt=claim.attempt,
            params=params,
            correlation_id=claim.lane.correlation_id,
            predecessor=claim.predecessor and [results.bring_back(value) for value in claim.predecessor],
            scratch=scratch,
            checkpoint=claim.checkpoint,
            fence=claim.fence,
            metadata=claim.metadata,
            platform=claim.lane.platform,
            traceparent=traceparent,
        )
        lane = claim.lane
        return cls(lane.purpose, claim.handler, lane.workflow, facts, previous, lane.shape.folding, lane.shape.skipped)


@dataclass(slots=True)
class Outcome:
    """The outcome of an attempt: result or error, metrics, hand-over and output; values as JSON text.

    What it printed ends with where it failed, if it did.

    Interrupted: it was asked to stop, and did; there is neither. Whether the process that it ran in had no descriptors
    left for it, only its worker can judge. Unanswered: the platform's own database or storage did not answer it.
    """

    result: str | None = None
    error: Failure | None = None
    metrics: str | None = None
    log: str | None = None
    has_scratch: bool = False
    handed: str | None = None
    interrupted: bool = False
    lacked_descriptors: bool = False
    unanswered: bool = False


def perform(registry: Registry, call: Call, voice: WorkerLink, resources: HandlerResources = NO_RESOURCES) -> Outcome:
    """Run a call to its end in this thread."""
    context = Context(call.facts, voice, resources)
    before = CURRENT_TASK.set(call.facts)
    try:
        return _performed(context, _answer(registry, call, context), call.handler)
    except BaseException as error:  # noqa: BLE001  # a handler may raise anything, SystemExit and its kin too
        return _failed(context, voice, error)
    finally:
        CURRENT_TASK.reset(before)


async def perform_async(
    found: Handler, call: Call, voice: WorkerLink, resources: HandlerResources = NO_RESOURCES
) -> Outcome:
    """Run an async handler to its end in this loop."""
    context = Context(call.facts, voice, resources)
    CURRENT_TASK.set(call.facts)  # for the asyncio task that runs this, and those it starts
    try:
        answer = await call_handler(found, context)
        context.require_awaited()
        return _performed(context, check_result(found, answer, context.metrics), call.handler)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task and task.cancelling():
            raise
        return _failed(context, voice, error)  # nobody cancelled it: the handler raised it by itself
    except BaseException as error:  # noqa: BLE001  # a handler may raise anything, SystemExit and its kin too
        return _failed(context, voice, error)


def _failed(context: Context, voice: WorkerLink, error: BaseException) -> Outcome:
    interrupted = isinstance(error, Interrupted) and (voice.stopping or voice.cancelled)
    return Outcome(
        error=describe_error(error),
        log=None if interrupted else format_traceback(error),
        has_scratch=context.has_scratch,
        interrupted=interrupted,
        lacked_descriptors=is_exhausted(error, in_handler=True),
        unanswered=is_unanswered(error),
    )


def _answer(registry: Registry, call: Call, context: Context) -> object:
    if call.purpose is Purpose.WORK:
        found = registry.handlers.get(call.handler)
        if found is None:
            raise DefinitionError("handler.missing", f"no plugin of this worker brings the handler {call.handler!r}")
        answer = call_handler(found, context)
        # An async handler whose worker died runs alone in a child, which has no loop of its own.
        answer = asyncio.run(answer) if inspect.iscoroutine(answer) else answer
        return check_result(found, answer, context.metrics)
    if call.folding is not None:
        return fold_results(call.previous or [], call.folding, call.skipped)
    declared = registry.declaration(call.workflow)
    node = declared.workflow.node(call.facts.node_id)
    if call.purpose is Purpose.PLAN:
        return declared.plan(node, dict(call.facts.params), call.facts.job_id, call.previous or [])
    return declared.aggregate(node, call.previous or [])


def _performed(context: Context, value: object, handler: str) -> Outcome:
    if is_reference(value):
        raise ContractViolationError(f"{handler} returned what looks like a reference of the engine's own")
    try:
        metrics = encode(context.metrics) if context.metrics else None
        if isinstance(value, TaskError):
            return Outcome(error=describe_error(value), metrics=metrics, has_scratch=context.has_scratch)
        handed = encode(context.handed) if context.handed else None
        return Outcome(encode(value), None, metrics, None, context.has_scratch, handed)
    except ValueError as error:
        raise ContractViolationError(f"{handler} returned what can't be stored: {error}") from error
