"""Query parameters and bodies of requests about schedules."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, JsonValue

from anabranch.access import PLATFORM_PATTERN
from anabranch.platform.schedules.schedules import MAX_BACKFILL_TICKS, ScheduleChange
from anabranch.strict_model import StrictModel
from anabranch.workflows.mistakes import refuse
from anabranch.workflows.schedules.cron import MAX_CRON_CHARACTERS, read_cron, read_zone
from anabranch.workflows.schedules.schedule import CatchUp, Overlap
from anabranch.workflows.schedules.watch import (
    MAX_PATTERN_CHARACTERS,
    WATCH_SECONDS,
    Existing,
    read_folder,
    read_pattern,
)
from anabranch.workflows.values import ID_PATTERN

__all__ = [
    "AddScheduleRequest",
    "BackfillRequest",
    "ChangeScheduleRequest",
    "ScheduleQuery",
    "SchedulesQuery",
    "TicksQuery",
]

EXAMPLE: dict[str, JsonValue] = {
    "name": "nightly",
    "workflow": "echo",
    "cron": "30 2 * * *",
    "timezone": "Europe/Berlin",
}
YEARS = range(1970, 9999)
Cron = Annotated[
    str,
    Field(max_length=MAX_CRON_CHARACTERS, description="Minute, hour, day of month, month and day of week."),
    AfterValidator(read_cron),
]
Zone = Annotated[
    str, Field(max_length=100, description="A name of the IANA time zone database."), AfterValidator(read_zone)
]
WorkflowName = Annotated[str, Field(min_length=1, max_length=63, description="The workflow whose jobs are made.")]
Inputs = Annotated[
    dict[str, JsonValue],
    Field(
        description="The jobs' inputs; text in them may hold `{{ job.scheduled_at }}` and `{{ job.interval_start }}`, "
        "or, of a schedule that watches a folder, `{{ object.url }}` and what else is known of the object."
    ),
]
Platform = Annotated[
    str | None,
    Field(
        pattern=f"^{PLATFORM_PATTERN.pattern}$",
        description="The platform it belongs to; another than the caller's needs admin.",
    ),
]


def _read_instant(at: datetime) -> datetime:
    if at.year not in YEARS:
        raise refuse(f"{{key}} is an instant of the years {YEARS[0]} to {YEARS[-1]}")
    return at


def _within(name: str, description: str) -> Any:  # as pydantic's Field
    low, high = WATCH_SECONDS[name]
    return Field(ge=low, le=high, strict=True, description=description)


Instant = Annotated[AwareDatetime, AfterValidator(_read_instant)]
ABOUT_OVERLAP = "What happens to a tick while the job of an earlier one goes on."
Watch = Annotated[
    str,
    Field(max_length=1_100, description="In place of `cron`: a folder whose new and changed objects get a job each."),
    AfterValidator(read_folder),
]
Pattern = Annotated[
    str,
    Field(max_length=MAX_PATTERN_CHARACTERS, description="What the names of watched objects are like: `*.tif`."),
    AfterValidator(read_pattern),
]
Stable = Annotated[
    int, _within("stable_seconds", "How long a watched object must be unchanged before it gets its job.")
]
Poll = Annotated[int, _within("poll_seconds", "How long after a look at the folder the next one begins.")]
ABOUT_EXISTING = "Whether objects that were there before get jobs."
ABOUT_CATCH_UP = "Which of the ticks that were missed get a job."


class AddScheduleRequest(StrictModel):
    """A schedule to add."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})
    name: Annotated[str, Field(pattern=ID_PATTERN, description="Its name, unique among those of its platform.")]
    workflow: WorkflowName
    cron: Cron | None = None
    timezone: Zone = "UTC"
    inputs: Inputs = Field(default_factory=dict)
    overlap: Overlap = Field(Overlap.SKIP, description=ABOUT_OVERLAP)
    catch_up: CatchUp = Field(CatchUp.LATEST, description=ABOUT_CATCH_UP)
    watch: Watch | None = None
    pattern: Pattern | None = None
    stable_seconds: Stable = 10
    poll_seconds: Poll = 10
    existing: Existing = Field(Existing.SKIP, description=ABOUT_EXISTING)
    platform: Platform = None

    @property
    def wanted(self) -> ScheduleChange:
        """What it is to be."""
        return _change(self)


class ChangeScheduleRequest(StrictModel):
    """What to change of a schedule; the rest stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cron": "0 3 * * *"}]})
    workflow: WorkflowName | None = None
    cron: Cron | None = None
    timezone: Zone | None = None
    inputs: Inputs | None = None
    overlap: Overlap | None = Field(None, description=ABOUT_OVERLAP)
    catch_up: CatchUp | None = Field(None, description=ABOUT_CATCH_UP)
    watch: Watch | None = None
    pattern: Pattern | None = None
    stable_seconds: Stable | None = None
    poll_seconds: Poll | None = None
    existing: Existing | None = Field(None, description=ABOUT_EXISTING)

    @property
    def change(self) -> ScheduleChange:
        """What changes."""
        return _change(self)


def _change(given: AddScheduleRequest | ChangeScheduleRequest) -> ScheduleChange:
    return ScheduleChange(**{field.name: getattr(given, field.name) for field in fields(ScheduleChange)})


class BackfillRequest(StrictModel):
    """A range of the past whose ticks get their jobs."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"begin": "2026-01-01T00:00:00Z", "end": "2026-01-31T23:59:59Z", "dry_run": True}]
        }
    )
    begin: Instant = Field(description="The first instant of the range.")
    end: Instant = Field(description="The last instant of the range; at most now.")
    limit: int = Field(100, ge=1, le=MAX_BACKFILL_TICKS, strict=True, description="The maximum number of ticks.")
    dry_run: bool = Field(False, strict=True, description="Only say what would run.")

    @property
    def range(self) -> tuple[datetime, datetime]:
        """From when to when."""
        return self.begin.astimezone(UTC), self.end.astimezone(UTC)


class ScheduleQuery(StrictModel):
    """Whose schedule is meant."""

    platform: Platform = None


class SchedulesQuery(StrictModel):
    """Which schedules to list."""

    limit: int = Field(100, ge=1, le=1000, description="The size of the page.")
    before: int | None = Field(None, ge=1, lt=2**63, description="The `next` of the previous page.")


class TicksQuery(ScheduleQuery):
    """Which ticks to list."""

    limit: int = Field(100, ge=1, le=1000, description="The size of the page.")
    before: AwareDatetime | None = Field(None, description="The `next` of the previous page.")
