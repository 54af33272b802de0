"""One tree of errors.

AnabranchError
├── DefinitionError     a workflow, handler or plugin is wrong; found when it is loaded
├── InputError          the caller's inputs are wrong; never retried
├── NotFound, Conflict  no such thing; the state has moved on since it was read
│   └── Changed         it moved on while it was read; reading again may help
├── Unavailable         a part that is needed does not answer; trying again may help
│   ├── Denied          it answers, and refuses us
│   └── Full            it has no room
└── TaskError           a handler failed; tried again where a retry is declared
    ├── Permanent       trying again can't help, whatever is declared
    ├── Transient       trying again may help
    ├── Throttled       trying again later may help
    ├── Resource        memory, disk or time ran out
    └── Interrupted     it was told to stop, and did
"""

from datetime import timedelta

__all__ = [
    "AnabranchError",
    "BusinessLogicError",
    "Changed",
    "Conflict",
    "ContractViolationError",
    "DefinitionError",
    "Denied",
    "Full",
    "InputError",
    "Interrupted",
    "NotFound",
    "Permanent",
    "Resource",
    "TaskError",
    "Throttled",
    "Transient",
    "Unavailable",
]


class AnabranchError(Exception):
    """What went wrong (`message`), under a stable `code`, and what to do about it (`remedy`).

    The category says whether a handler that fails by it is tried again.
    """

    category = "permanent"

    def __init__(self, code: str, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy


class DefinitionError(AnabranchError):
    """A workflow, handler or plugin is wrong."""


class InputError(AnabranchError):
    """The caller's inputs are wrong."""


class NotFound(AnabranchError):
    """There is no such thing."""


class Conflict(AnabranchError):
    """The state has moved on, or another holds it."""


class Changed(Conflict):
    """It moved on while it was read."""

    category = "transient"


class Unavailable(AnabranchError):
    """A part that is needed does not answer."""

    category = "transient"


class Denied(Unavailable):
    """A part that is needed refuses us."""

    category = "permanent"


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


class BusinessLogicError(Permanent):
    """The seeds' word for a failure that the handler foresaw."""


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
    """The handler was told to stop and did: the task is handed back, and no attempt is spent.

    One that nobody told is charged with a transient failure.
    """

    category = "transient"

    def __init__(self, message: str = "it stopped before its end", *, code: str = "", remedy: str = "") -> None:
        super().__init__(message, code=code or "handler.interrupted", remedy=remedy)


class ContractViolationError(TypeError):
    """A handler or planner broke its contract: a bug, never retried."""
