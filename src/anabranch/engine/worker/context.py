"""The context of a handler: its task, and its progress, checkpoints and metrics."""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from anabranch.canonical import Json, JsonObject, decode, encode
from anabranch.engine.model import Attempt, Checkpoint, ProgressReport
from anabranch.engine.worker.geo_library import GeoLibrary
from anabranch.engine.worker.handler_resources import NO_RESOURCES, Connections, HandlerResources
from anabranch.errors import ContractViolationError, Permanent
from anabranch.manifests.signing_key import SigningKey
from anabranch.storage.read_access import ReadAccess
from anabranch.storage.task_storage import TaskStorage, Writer
from anabranch.storage.work_files import WorkFiles

__all__ = ["CURRENT_TASK", "Context", "NoLink", "PendingCheckpoint", "TaskFacts", "WorkerLink", "ids_of_task"]

Model = TypeVar("Model", bound=BaseModel)
MAX_HANDOVER_CHARS = 64_000
MAX_CHECKPOINT_BYTES = 64_000
MAX_PHASE_CHARS = 200
MAX_MESSAGE_CHARS = 1_000


@dataclass(slots=True)
class TaskFacts:
    """A task as its handler sees it; it travels to the process that runs it."""

    job_id: str
    task_id: str
    node_id: str
    index: int | str
    attempt: int
    params: JsonObject
    correlation_id: str
    predecessor: list[Json] | None
    scratch: str
    checkpoint: Checkpoint | None = None
    fence: Attempt | None = None
    metadata: JsonObject | None = None
    platform: str = ""
    traceparent: str | None = None


# The task whose handler runs here now. Setting it costs next to nothing; what a log line needs of it is found when one
# is written (O3).
CURRENT_TASK: ContextVar[TaskFacts | None] = ContextVar("anabranch_task", default=None)


def ids_of_task() -> dict[str, str | int]:
    """What every log line of the task that runs here carries; nothing where none does."""
    task = CURRENT_TASK.get()
    if task is None:
        return {}
    return {
        "job": task.job_id, "task": task.task_id, "attempt": task.attempt, "correlation_id": task.correlation_id
    }  # fmt: skip


class WorkerLink(Protocol):
    """The line between a handler and its worker."""

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled."""

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop."""

    def progress(self, progress: ProgressReport) -> None:
        """Say how far the task is."""

    def save(self, phase: str, state: str) -> Callable[[], Awaitable[None]] | None:
        """Save a checkpoint, its state as JSON text; what a handler in a loop must await for it, or None when it is
        saved already. Interrupted when the attempt is not the current one: from then on it is cancelled, too."""


class NoLink:
    """The line of a handler that is too short to say or hear anything."""

    cancelled = False
    stopping = False

    def progress(self, progress: ProgressReport) -> None:
        """Ignored."""

    def save(self, phase: str, state: str) -> None:
        """Such a handler can't resume."""
        raise ContractViolationError("ctx.checkpoint is not for quick handlers: declare this one without quick=True")


class PendingCheckpoint:
    """A checkpoint of an async handler, durable when it was awaited. Elsewhere it is durable already, and awaiting it
    does nothing."""

    __slots__ = ("_then", "_wait")

    def __init__(self, wait: Callable[[], Awaitable[None]] | None, then: Callable[[], None]) -> None:
        """Made by the context; `then` is called when it is durable."""
        self._wait = wait
        self._then = then
        if wait is None:
            then()

    def __await__(self) -> Generator[Any, None, None]:
        """Wait until it is durable."""
        wait, self._wait = self._wait, None
        if wait is not None:
            yield from wait().__await__()
            self._then()

    @property
    def is_pending(self) -> bool:
        """Whether it must still be awaited."""
        return self._wait is not None


class Context:
    """The context of a handler: its task, and its progress, checkpoints and metrics."""

    __slots__ = (
        "_access", "_checkpoint", "_facts", "_geo", "_resources", "_saving", "_voice",
        "handed", "has_scratch", "metrics",
    )  # fmt: skip

    def __init__(self, facts: TaskFacts, voice: WorkerLink, resources: HandlerResources = NO_RESOURCES) -> None:
        """Made by the engine for each attempt."""
        self._facts = facts
        self._resources = resources
        self._voice = voice
        self._checkpoint = facts.checkpoint
        self._saving: PendingCheckpoint | None = None
        self._geo: GeoLibrary | None = None
        self._access: ReadAccess | None = None
        self.metrics: JsonObject = {}
        self.handed: JsonObject = {}
        self.has_scratch = False

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._facts.job_id

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self._facts.task_id

    @property
    def node_id(self) -> str:
        """The node's name."""
        return self._facts.node_id

    @property
    def index(self) -> int | str:
        """The task's index in its node."""
        return self._facts.index

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._facts.attempt

    @property
    def fence(self) -> Attempt | None:
        """What distinguishes this attempt from every other, where the engine runs it (E3)."""
        return self._facts.fence

    @property
    def params(self) -> Mapping[str, Json]:
        """The task's parameters."""
        return self._facts.params

    @property
    def metadata(self) -> Mapping[str, Json]:
        """What the planner of the stage noted of the task; empty if it noted nothing."""
        return self._facts.metadata or {}

    @property
    def correlation_id(self) -> str:
        """The id that ties log lines, events and answers of a job together."""
        return self._facts.correlation_id

    @property
    def traceparent(self) -> str | None:
        """What calls of other services send as the header `traceparent`; None if the job is not traced."""
        return self._facts.traceparent

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines are kept with the attempt, or in the worker's log where the handler runs in it."""
        return logging.LoggerAdapter(logging.getLogger("anabranch.task"), {"task": self._facts.task_id})

    @property
    def scratch(self) -> Path:
        """A folder of this attempt's own, removed after it (W6)."""
        self.has_scratch = True
        folder = Path(self._facts.scratch)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def work(self) -> WorkFiles:
        """Files that outlive the attempt, for the next one and for other tasks of the job, on any machine.

        They are removed some time after the job has ended.
        """
        return WorkFiles(self._resources.storage, self._resources.sources, self._writer, lambda: self.scratch)

    @property
    def storage(self) -> TaskStorage:
        """The tiers: fetch sources that the platform of the job may read, and put what this attempt makes."""
        own = self._resources
        if self._access is None:
            self._access = ReadAccess(self._facts.platform, self.job_id, own.database.find_rights)
        return TaskStorage(own.storage, own.sources, self._writer, lambda: self.scratch, self._access)

    blob_repository = storage

    def database(self) -> AbstractContextManager[Any]:  # a connection of psycopg's, which the engine does not know
        """A connection for one short burst: it commits at the end of its `with`, and rolls back by an exception.

        It may create and fill tables, views and functions in schema `geo`, and read the layers that are published
        there. Few handlers of a worker have one at the same time; open it when all is computed.
        """
        return self._resources.database()

    def catalog(self) -> AbstractContextManager[Any]:  # as above
        """The same for plugins that publish: it may record publications, and change nothing else."""
        return self._resources.database.publishing()

    def catalog_if_free(self) -> AbstractContextManager[Any]:  # as above
        """The same at once, or None while other handlers have them all: for work that gains by a second connection."""
        return self._resources.database.publishing_if_free()

    @property
    def geo(self) -> GeoLibrary:
        """Publishes tables that this handler made in schema `geo` by `database`."""
        if self._geo is None:
            self._geo = self._resources.open_geo(self)
        return self._geo

    @property
    def pool(self) -> Connections:
        """Connections for async handlers: `async with ctx.pool.connection() as connection`; otherwise as `database`."""
        return self._resources.database

    @property
    def signing_key(self) -> SigningKey:
        """The key of the installation, which signs the manifests of what is published."""
        if self._resources.signing_key is None:
            raise ContractViolationError("ctx.signing_key: the process that runs this handler was given none")
        return SigningKey.open(self._resources.signing_key)

    @property
    def public_url(self) -> str | None:
        """The public URL of the API, which links begin with; None where the operator has set none."""
        return self._resources.public_url

    def settings(self, model: type[Model]) -> Model:
        """The settings of an installed plugin, which brings their model by the entry point `anabranch.settings`."""
        for found in self._resources.settings:
            if isinstance(found, model):
                return found
        raise ContractViolationError(f"ctx.settings: no installed plugin brings the settings {model.__name__}")

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled, or is no longer this attempt's: stop soon, or be killed after the grace."""
        return self._voice.cancelled

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop: save what you can within the grace, and raise Interrupted."""
        return self._voice.stopping

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the task is, for all to see within a second or two; a heartbeat timeout must hear it in time."""
        if not (_is_number(done) and (total is None or _is_number(total))):
            raise ContractViolationError(f"ctx.progress was given {done!r} of {total!r}; both are numbers")
        said = ProgressReport(done, total, str(message)[:MAX_MESSAGE_CHARS])
        try:
            encode(vars(said))
        except ValueError as error:
            raise ContractViolationError(f"ctx.progress was given what can't be stored: {error}") from error
        self._voice.progress(said)

    def checkpoint(self, phase: str, state: Json = None) -> PendingCheckpoint:
        """Save what the next attempt needs to go on from here; it is durable when this returns, and in an async handler
        when it was awaited. Interrupted when the task is no longer this attempt's.

        While the database is away this waits, as long as the task's time allows.
        """
        phase = str(phase)
        if not 0 < len(phase) <= MAX_PHASE_CHARS:
            raise ContractViolationError(f"ctx.checkpoint: a phase has a name of 1 to {MAX_PHASE_CHARS} characters")
        try:
            encode(phase)
            text = encode(state)
        except ValueError as error:
            raise ContractViolationError(f"ctx.checkpoint was given what can't be stored: {error}") from error
        if (size := len(text.encode())) > MAX_CHECKPOINT_BYTES:
            raise ContractViolationError(
                f"ctx.checkpoint was given {size} bytes; at most {MAX_CHECKPOINT_BYTES} are kept:"
                " store larger things as a file by ctx.work.put, and save what it returns"
            )
        self.require_awaited()
        point = Checkpoint(phase, decode(text), self.attempt)
        self._saving = PendingCheckpoint(self._voice.save(phase, text), lambda: self._resume_from(point))
        return self._saving

    def resume(self) -> Checkpoint | None:
        """The last checkpoint that was saved, by this attempt or an earlier one; None when there is none."""
        return self._checkpoint

    def require_awaited(self) -> None:
        """Refuse a checkpoint that was not awaited: it would never be saved."""
        if self._saving is not None and self._saving.is_pending:
            raise ContractViolationError("ctx.checkpoint was not awaited: in an async handler, await it")

    @property
    def _writer(self) -> Writer:
        return Writer(self.job_id, self.node_id, self.index, self.attempt)

    def _resume_from(self, point: Checkpoint) -> None:
        self._checkpoint = point

    def hand_over(self, **params: Json) -> None:
        """Give parameters to the task of the same index of the next stage; they count if this attempt's result does."""
        handed = {**self.handed, **params}
        try:
            size = len(encode(handed))
        except ValueError as error:
            raise ContractViolationError(f"ctx.hand_over was given what can't be stored: {error}") from error
        if size > MAX_HANDOVER_CHARS:
            raise ContractViolationError(
                f"ctx.hand_over was given {size} characters; at most {MAX_HANDOVER_CHARS} are kept"
            )
        self.handed = handed

    def predecessor(self) -> Any:  # as the handler of the stage before returned it
        """The result of the task with the same index in the stage before."""
        if not self._facts.predecessor:
            raise Permanent(
                f"task {self.task_id} has no predecessor",
                code="task.no_predecessor",
                remedy="Declare uses_lineage on the stage, and give both stages the same indexes.",
            )
        return self._facts.predecessor[0]

    def has_predecessor(self) -> bool:
        """Whether the stage before has a result with the same index."""
        return bool(self._facts.predecessor)

    get_predecessor_result = predecessor


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
