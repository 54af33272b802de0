"""One tree of errors.

AnabranchError
├── DefinitionError     a workflow, handler or plugin is wrong; found when it is loaded
├── InputError          the caller's inputs are wrong; never retried
├── NotFound, Conflict  no such thing; the state has moved on since it was read
│   ├── Gone            it was there, and will not come back under this address
│   └── Changed         it moved on while it was read; reading again may help
├── Unavailable         a part that is needed does not answer; trying again may help
│   ├── Denied          it answers, and refuses us
│   └── Full            it has no room
└── TaskError           a handler failed; tried again where a retry is declared
    ├── Permanent       trying again can't help, whatever is declared
    ├── Transient       trying again may help
    ├── Throttled       trying again later may help
    ├── Resource        memory, disk or time ran out
    └── Interrupted     it was asked to stop, and did
"""

from datetime import timedelta
from enum import Enum

__all__ = [
    "AnabranchError",
    "BusinessLogicError",
    "Changed",
    "Conflict",
    "ContractViolationError",
    "DatabaseError",
    "DefinitionError",
    "Denied",
    "Full",
    "Gone",
    "InputError",
    "Interrupted",
    "Kind",
    "NotFound",
    "Permanent",
    "Resource",
    "ResourceNotFoundError",
    "ServiceBusError",
    "TaskError",
    "TaskExecutionError",
    "Throttled",
    "Transient",
    "Unavailable",
    "ValidationError",
]


class Kind(Enum):
    """The kind of an error: its HTTP status, its exit code, and whether a retry may succeed."""

    INVALID = (422, 5, False)
    DEFINITION = (None, 5, False)
    NOT_FOUND = (404, 3, False)
    GONE = (410, 3, False)
    CONFLICT = (409, 6, False)
    NOT_ALLOWED = (403, 4, False)
    UNAVAILABLE = (503, 9, True)
    USAGE = (None, 2, False)
    THROTTLED = (429, 9, True)
    TIMED_OUT = (None, 8, True)
    INTERNAL = (500, 1, False)
    TASK = (None, 7, False)
    TASK_AGAIN = (None, 7, True)

    def __init__(self, status: int | None, exit_code: int, retryable: bool) -> None:
        self.status = status
        self.exit_code = exit_code
        self.retryable = retryable


class AnabranchError(Exception):
    """What went wrong (`message`), under a stable `code`, and what to do about it (`remedy`).

    `category` says whether a handler that fails with it is retried, and `kind` is that of codes that are not listed in
    `codes.py`.
    """

    category = "permanent"
    kind = Kind.INTERNAL

    def __init__(self, code: str, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy


class DefinitionError(AnabranchError):
    """A workflow, handler or plugin is wrong."""

    kind = Kind.DEFINITION


class InputError(AnabranchError):
    """The caller's inputs are wrong."""

    kind = Kind.INVALID


class NotFound(AnabranchError):
    """There is no such thing."""

    kind = Kind.NOT_FOUND


class Gone(NotFound):
    """It was there; `replaced_by` is the collection and the id of the item that shows what took its place, if any."""

    kind = Kind.GONE

    def __init__(self, code: str, message: str, *, replaced_by: tuple[str, str] | None = None) -> None:
        super().__init__(code, message)
        self.replaced_by = replaced_by


class Conflict(AnabranchError):
    """The state has moved on, or another holds it."""

    kind = Kind.CONFLICT


class Changed(Conflict):
    """It moved on while it was read."""

    category = "transient"


class Unavailable(AnabranchError):
    """A part that is needed does not answer; `retry_after` is when it may, in seconds, if it says so."""

    category = "transient"
    kind = Kind.UNAVAILABLE
    retry_after: float | None = None


class Denied(Unavailable):
    """A part that is needed refuses us."""

    category = "permanent"
    kind = Kind.NOT_ALLOWED


class Full(Unavailable):
    """There is no room."""

    category = "resource"


class TaskError(AnabranchError):
    """A handler failed; raised by handlers with a message, and a code where one helps."""

    category = "error"

    def __init__(self, message: str, *, code: str = "", remedy: str = "") -> None:
        super().__init__(code or f"handler.{self.category}", message, remedy=remedy)


class Permanent(TaskError):
    """Trying again can't help, whatever retry is declared."""

    category = "permanent"


class BusinessLogicError(TaskError):
    """A failure that the handler foresaw; it is permanent, unless a subclass says otherwise."""

    category = "permanent"


class TaskExecutionError(BusinessLogicError):
    """The work of a task failed."""


class ResourceNotFoundError(BusinessLogicError):
    """What the task needs is not there."""


class ValidationError(BusinessLogicError):
    """The data are not as they must be."""


class DatabaseError(BusinessLogicError):
    """A database that the handler uses failed; trying again may help."""

    category = "transient"


class ServiceBusError(BusinessLogicError):
    """A message broker that the handler uses failed; trying again may help."""

    category = "transient"


class Transient(TaskError):
    """Trying again may help."""

    category = "transient"


class Throttled(TaskError):
    """The other side asks us to slow down."""

    category = "throttled"

    def __init__(
        self, message: str, *, retry_after: timedelta | float | None = None, code: str = "", remedy: str = ""
    ) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.retry_after = retry_after


class Resource(TaskError):
    """Memory, disk or time ran out."""

    category = "resource"


class Interrupted(TaskError):
    """The handler was asked to stop and did: the task is handed back, and no attempt is spent.

    One that nobody asked is charged with a transient failure.
    """

    category = "transient"

    def __init__(self, message: str = "it stopped before its end", *, code: str = "", remedy: str = "") -> None:
        super().__init__(message, code=code or "handler.interrupted", remedy=remedy)


class ContractViolationError(TypeError):
    """A handler or planner broke its contract: a bug, never retried."""
