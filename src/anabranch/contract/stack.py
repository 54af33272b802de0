"""The health of the stack, its database and its keys."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal

from anabranch.contract.answer import Answer, JsonValue, answer
from anabranch.enums import Scope

__all__ = [
    "Alive",
    "CheckedFunctions",
    "Component",
    "Difference",
    "ErrorCode",
    "Health",
    "Key",
    "NewKey",
    "Ready",
    "Redeployed",
    "Setting",
    "Statistics",
    "Status",
    "TableSize",
    "TaskRow",
    "Transaction",
]

Status = Literal["ok", "degraded", "down"]


@answer
class Component(Answer):
    """One part of the stack."""

    status: Status
    detail: str
    remedy: str | None
    """What to do; null if all is well."""
    since: datetime
    """When this API first saw this status."""


@answer
class Health(Answer):
    """The status of every part; the worst of them is the status of all."""

    status: Status
    components: Mapping[str, Component]
    queues: Mapping[str, int]
    """Tasks that wait for a worker, by queue."""


@answer
class Alive(Answer):
    """The event loop turns."""

    status: Status
    tick_age_seconds: float | None = None
    """Not for anonymous callers."""


@answer
class Ready(Answer):
    """Jobs can be submitted and read."""

    status: Status


@answer
class ErrorCode(Answer):
    """A code, what it means and what to do."""

    code: str
    meaning: str
    remedy: str
    status: int | None
    """The HTTP status; null if no request is answered with it."""
    exit_code: int
    """The exit code of a command."""
    retryable: bool
    """Whether the same may succeed later."""


@answer
class Setting(Answer):
    """A setting of the API's process."""

    name: str
    value: JsonValue
    """Secrets are masked."""
    origin: str
    """The variable or file that it is from, or `default`."""


@answer
class Key(Answer):
    """A key, without its secret."""

    id: str
    name: str
    platform: str
    scope: Scope
    state: str
    """`active`, `expired` or `revoked`."""
    made_at: datetime
    made_by: str
    expires_at: datetime | None
    used_at: datetime | None
    """To the minute."""
    revoked_at: datetime | None
    revoked_by: str | None


@answer
class NewKey(Key):
    """A new key with its secret, which is returned only once."""

    key: str = field(repr=False)
    """What its holder sends."""


@answer
class TaskRow(Answer):
    """A task as stored in its row."""

    task_id: str
    node: str
    generation: int
    lane: int
    position: int
    index: str
    status: str
    handler: str
    attempt: int
    failures: int
    crashes: int
    session: int | None
    """The session that holds it, or held it last."""
    host: str | None
    pid: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    result: JsonValue
    """As it is stored: a large one is a reference."""
    error: JsonValue


@answer
class TableSize(Answer):
    """A table of schema app."""

    name: str
    rows: int
    """As the server estimates."""
    dead_rows: int
    table_bytes: int
    index_bytes: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


@answer
class Transaction(Answer):
    """An open transaction."""

    seconds: float
    process: str
    state: str | None


@answer
class Statistics(Answer):
    """Sizes of the database and its tables, and the number of jobs by status."""

    database_bytes: int
    connections: int
    max_connections: int
    oldest_transaction: Transaction | None
    """Of those that the API's user may see."""
    jobs: Mapping[str, int]
    """By status."""
    tables: tuple[TableSize, ...]

    @property
    def oldest_transaction_seconds(self) -> float | None:
        """The age of the oldest transaction."""
        return self.oldest_transaction.seconds if self.oldest_transaction else None


@answer
class Difference(Answer):
    """A difference between the database and this release; null where one of them has nothing."""

    what: str
    where: str
    expected: str | None
    found: str | None


@answer
class CheckedFunctions(Answer):
    """Whether the database matches the API's release; `differences` lists what does not."""

    ok: bool
    functions: int
    """How many this release has."""
    called: int
    """How many were called, without effect."""
    differences: list[Difference]


@answer
class Redeployed(Answer):
    """The functions that were created again."""

    redeployed: bool
    functions: int
