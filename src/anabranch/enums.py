"""The enums that the database, the engine, the API and its clients share."""

from enum import StrEnum

__all__ = ["DEFAULT_PLATFORM", "JobState", "LimitKind", "NodeState", "NodeStatus", "Scope", "SessionKind"]


DEFAULT_PLATFORM = "default"  # whose keys without a platform are, and the person at the machine


class Word(StrEnum):
    """A text that prints without the name of its enum."""

    __repr__ = str.__repr__


class JobState(Word):
    """The state of a job."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class NodeState(Word):
    """The state of a node as it is stored; `running` means opened."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class NodeStatus(Word):
    """The status of a node as it is shown: a gate or a wait that is open is waiting."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class SessionKind(Word):
    """The kind of process that a session belongs to."""

    WORKER = "worker"
    ORCHESTRATOR = "orchestrator"
    API = "api"


class LimitKind(Word):
    """The kind of thing that a limit is for."""

    QUEUE = "queue"
    WORKFLOW = "workflow"
    HANDLER = "handler"
    KEY = "key"


class Scope(Word):
    """What a principal may do; each includes those before it."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    ADMIN = "admin"

    def includes(self, other: "Scope") -> bool:
        """Whether this scope allows what needs the other."""
        order = list(Scope)
        return order.index(self) >= order.index(other)
