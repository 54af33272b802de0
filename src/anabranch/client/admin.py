"""Operations for admins: keys and the database."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Self

from anabranch.client.answers import JsonValue, Page, Raw
from anabranch.client.calls import Call
from anabranch.client.paths import encode_part

__all__ = [
    "CheckedFunctions",
    "Key",
    "NewKey",
    "Statistics",
    "TableSize",
    "TaskRow",
    "check_functions",
    "list_keys",
    "make_key",
    "redeploy_schema",
    "revoke_key",
    "statistics",
    "task_rows",
]


@dataclass(frozen=True)
class Answer:
    """A dataclass whose fields are read from the JSON keys of the same names."""

    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read an answer."""
        names = [one.name for one in fields(cls) if one.name != "raw"]
        return cls(**{name: _value(name, raw[name]) for name in names}, raw=raw)


@dataclass(frozen=True)
class Key(Answer):
    """A key, without its secret."""

    id: str
    name: str
    owner: str
    scope: str
    state: str
    made_at: datetime
    made_by: str
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


@dataclass(frozen=True)
class NewKey(Key):
    """A new key with its secret, which is returned only once."""

    key: str = field(repr=False)


@dataclass(frozen=True)
class TaskRow(Answer):
    """A task as stored in its row."""

    task_id: str
    node: str
    generation: int
    lane: int
    position: int
    index: str
    state: str
    handler: str
    attempt: int
    failures: int
    crashes: int
    session: int | None
    host: str | None
    pid: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    result: JsonValue
    error: JsonValue


@dataclass(frozen=True)
class TableSize(Answer):
    """A table; `rows` is the server's estimate."""

    name: str
    rows: int
    dead_rows: int
    table_bytes: int
    index_bytes: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


@dataclass(frozen=True)
class Statistics:
    """Sizes of the database and its tables, and the number of jobs by state."""

    database_bytes: int
    connections: int
    max_connections: int
    oldest_transaction_seconds: float | None
    jobs: Mapping[str, int]
    tables: tuple[TableSize, ...]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Statistics":
        """Read an answer."""
        oldest = raw["oldest_transaction"]
        return cls(
            database_bytes=raw["database_bytes"],
            connections=raw["connections"],
            max_connections=raw["max_connections"],
            oldest_transaction_seconds=oldest and oldest["seconds"],
            jobs=raw["jobs"],
            tables=tuple(TableSize.of(table) for table in raw["tables"]),
            raw=raw,
        )


@dataclass(frozen=True)
class CheckedFunctions(Answer):
    """Whether the database matches the API's release; `differences` lists what does not."""

    ok: bool
    functions: int
    called: int
    differences: list[Raw]


def make_key(name: str, scope: str, *, owner: str | None = None, expires_in_seconds: int | None = None) -> Call[NewKey]:
    """Create a key; its secret is returned only once."""
    given = {"name": name, "scope": scope, "owner": owner, "expires_in_seconds": expires_in_seconds}
    body = json.dumps({name: value for name, value in given.items() if value is not None}).encode()
    return Call(NewKey.of, "POST", "/api/keys", body=body)


def list_keys(*, limit: int | None = None, before: str | None = None) -> Call[Page[Key]]:
    """Keys, the newest first."""
    query = {"limit": limit, "before": before}
    return Call(lambda raw: Page.of(Key.of, raw), "GET", "/api/keys", query=query)


def revoke_key(key_id: str) -> Call[Key]:
    """Revoke a key permanently."""
    return Call(Key.of, "DELETE", f"/api/keys/{_part(key_id)}")


def task_rows(job_id: str, *, limit: int | None = None, after: str | None = None) -> Call[Page[TaskRow]]:
    """The tasks of a job as stored in their rows."""
    path, query = f"/api/db/tasks/{_part(job_id)}", {"limit": limit, "after": after}
    return Call(lambda raw: Page.of(TaskRow.of, raw), "GET", path, query=query)


def statistics() -> Call[Statistics]:
    """Sizes of the database and its tables, and the jobs by state."""
    return Call(Statistics.of, "GET", "/api/db/stats")


def check_functions() -> Call[CheckedFunctions]:
    """Whether functions and tables match the API's release."""
    return Call(CheckedFunctions.of, "GET", "/api/db/functions/test")


def redeploy_schema() -> Call[int]:
    """Recreate the functions; returns their number."""
    path = "/api/db/schema/redeploy"
    return Call(lambda raw: int(raw["functions"]), "POST", path, query={"confirm": "yes"})


def _value(name: str, value: JsonValue) -> JsonValue:
    return datetime.fromisoformat(value) if name.endswith("_at") and value is not None else value


def _part(text: str) -> str:
    return encode_part(text) or "-"  # a name that nothing has
