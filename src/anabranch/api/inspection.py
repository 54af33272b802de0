"""Requests and responses of the database's inspection."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.store.inspection import Checked, Statistics
from anabranch.api.requests import Input
from anabranch.api.schemas import View
from anabranch.engine.views import TaskRow

__all__ = [
    "FunctionsView",
    "RedeployQuery",
    "RedeployedView",
    "StatisticsView",
    "TaskRowView",
    "TaskRowsQuery",
]

JsonValue = Any  # JSON of any shape, checked when it was stored


class TaskRowsQuery(Input):
    """Which tasks to list."""

    limit: int = Field(100, ge=1, le=1000, description="How many at most.")
    after: str | None = Field(None, pattern=r"^[0-9]{1,18}\.[0-9]{1,9}$", description="The `next` of the page before.")


class RedeployQuery(Input):
    """Whether to redeploy indeed."""

    confirm: str = Field("", description="`yes`")


class TaskRowView(View):
    """A task as its row stands."""

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
    session: int | None = Field(description="The session that holds it, or held it last.")
    host: str | None
    pid: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    result: JsonValue = Field(description="As it is stored: a large one is a reference.")
    error: JsonValue

    @classmethod
    def of(cls, row: TaskRow) -> Self:
        """The view of a row."""
        return cls(**{name: getattr(row, name) for name in cls.model_fields})


class TableView(View):
    """A table of schema app."""

    name: str
    rows: int = Field(description="As the server estimates.")
    dead_rows: int
    table_bytes: int
    index_bytes: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


class TransactionView(View):
    """A transaction that is open."""

    seconds: float
    process: str
    state: str | None


class StatisticsView(View):
    """How large all is, and how the jobs stand."""

    database_bytes: int
    connections: int
    max_connections: int
    oldest_transaction: TransactionView | None = Field(description="Of those that the API's user may see.")
    jobs: dict[str, int] = Field(description="By state.")
    tables: list[TableView]

    @classmethod
    def of(cls, found: Statistics) -> Self:
        """The view of statistics."""
        tables = [TableView(**asdict(table)) for table in found.tables]
        return cls.model_validate({**asdict(found.activity), "jobs": found.jobs, "tables": tables})


class DifferenceView(View):
    """One thing that is not as this release has it; null where there is nothing."""

    what: str
    where: str
    expected: str | None
    found: str | None


class FunctionsView(View):
    """Whether the database is what this release says, and where it is not."""

    ok: bool
    functions: int = Field(description="How many this release has.")
    called: int = Field(description="How many were called, without effect.")
    differences: list[DifferenceView]

    @classmethod
    def of(cls, found: Checked) -> Self:
        """The view of what a check found."""
        differences = [DifferenceView(**asdict(difference)) for difference in found.differences]
        return cls(ok=not differences, functions=len(Files().functions), called=found.called, differences=differences)


class RedeployedView(View):
    """What was recreated."""

    redeployed: bool
    functions: int
