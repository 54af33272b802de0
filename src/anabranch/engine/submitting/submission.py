"""A job to create: who asks for what, what makes it the same as another, and what its start brings."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Self

import structlog

from anabranch.canonical import Json, JsonObject, canonical, sha256
from anabranch.engine.advancing.evaluator import plan
from anabranch.engine.advancing.transitions import Facts, Needs, Started, Transition
from anabranch.engine.model import JobState, NodeState
from anabranch.enums import Scope
from anabranch.errors import AnabranchError, InputError
from anabranch.storage.read_access import require_own_uploads
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import ExpressionError

__all__ = ["CURRENT_TRACE", "IdempotencyKey", "Order", "Submission", "prepare_submission"]

log = structlog.get_logger()
# The `traceparent` of the request that is being answered: what it submits goes on with it.
CURRENT_TRACE: ContextVar[str | None] = ContextVar("anabranch_trace", default=None)


@dataclass(frozen=True)
class IdempotencyKey:
    """A caller's name for one request, and the hash of what it asks for; the answer is kept under it for a while."""

    text: str
    request: str
    keep: timedelta


@dataclass(frozen=True)
class Order:
    """A caller's request for a job, not checked yet.

    `by` is who asks, and `by_scope` what that may do; a job without a scope may do what needs none.
    """

    workflow_id: str
    parameters: Mapping[str, Json]
    scope: str
    correlation_id: str
    priority: int | None = None
    rerun: bool = False
    key: str | None = None
    by: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    callbacks: tuple[JsonObject, ...] = ()
    by_scope: Scope | None = None

    def named(self, keep: timedelta) -> IdempotencyKey | None:
        """Its idempotency key, if it has one, with the hash of the request.

        That is what the caller said and not what the workflow made of it: with a new default or without the workflow,
        the same request is still the same. How it was written is left out, and so are its labels, its callbacks, its
        correlation id and who asks.
        """
        if self.key is None:
            return None
        asked = {"workflow": self.workflow_id, "parameters": dict(self.parameters), "priority": self.priority}
        return IdempotencyKey(self.key, sha256(_write({**asked, "rerun": self.rerun})), keep)


@dataclass(frozen=True)
class Submission:
    """A job to create; one that `begins` is started in the same commit where that is possible.

    `parts` are the workflows that its child jobs will run; `by` is the principal who submits it, if it isn't another
    job, and `by_scope` the scope of that principal. Its `labels`, `trace` and `callbacks`, which only the store
    reads, are no part of its identity.
    `platform` owns the job if its scope is another. `tick` has the times of the schedule that makes it or its parent.
    """

    workflow: Workflow
    parameters: JsonObject
    scope: str
    priority: int
    rerun: bool
    correlation_id: str
    key: IdempotencyKey | None = None
    begins: bool = False
    parts: tuple[Workflow, ...] = ()
    by: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    callbacks: tuple[JsonObject, ...] = ()
    by_scope: Scope | None = None
    platform: str | None = None
    tick: JsonObject | None = None
    trace: str | None = field(default_factory=CURRENT_TRACE.get)

    @cached_property
    def parameters_text(self) -> str:
        """The parameters as canonical JSON; InputError where they can't be stored."""
        return _write(self.parameters)

    def sound(self) -> Self:
        """Itself; InputError where its parameters can't be stored."""
        _ = self.parameters_text
        return self

    def require_own_uploads(self) -> Self:
        """Itself; InputError where an input is an upload of another platform than its scope."""
        given = ((name, wanted.format) for name, wanted in (self.workflow.inputs or {}).items())
        values = (self.parameters.get(name) for name, form in given if form == "address")
        require_own_uploads(self.scope, (value for value in values if isinstance(value, str)))
        return self

    @cached_property
    def identity(self) -> tuple[str, str]:
        """The canonical JSON of its identity, before and after the ordinal, which the store knows."""
        head = f'{{"job_type":{canonical(self.workflow.id)},"ordinal":'
        return head, f',"parameters":{self.parameters_text},"scope":{canonical(self.scope)}}}'

    @cached_property
    def first_transitions(self) -> tuple[Transition, ...] | None:
        """What follows when the first job of this identity starts; None where the starter must find out."""
        if not self.begins:
            return None
        head, tail = self.identity
        facts = Facts(
            sha256(f"{head}0{tail}"),
            self.parameters,
            {node.name: NodeState.PENDING for node in self.workflow.nodes},
            state=JobState.PENDING,
            tick=self.tick,
        )
        try:
            planned = plan(self.workflow, facts, Started())
        except Exception:  # a poison job hurts only itself (E10): it is made, and fails when it is started
            log.exception("job.start_unplanned", workflow=self.workflow.id)
            return None
        return None if isinstance(planned, Needs) else planned


def prepare_submission(build: Callable[[], Submission], **known: str) -> tuple[Submission | None, str | None]:
    """What a schedule submits, or why it can't: that must not keep what comes next from its chance (E10)."""
    try:
        submission = build()
        _ = submission.first_transitions
    except (AnabranchError, ExpressionError) as error:
        return None, error.message
    except Exception as error:
        log.exception("schedule.unprepared", **known)
        return None, f"its job could not be made: {type(error).__name__}"
    return submission, None


def _write(value: JsonObject) -> str:
    try:
        return canonical(value)
    except ValueError as error:
        raise InputError("job.parameters", f"the parameters can't be stored: {error}") from error
