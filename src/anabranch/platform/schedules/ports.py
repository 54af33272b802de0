"""All that schedules ask of a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from anabranch.canonical import JsonObject
from anabranch.contract.answer import Page
from anabranch.contract.schedules import BackfillTick, ScheduleTick
from anabranch.engine.model import SessionId
from anabranch.engine.submitting.schedules.ports import MadeTick, ScheduleRow, Tick
from anabranch.engine.submitting.submission import Submission
from anabranch.platform.action_by import ActionBy
from anabranch.storage.read_access import ReadRights
from anabranch.workflows.definition import Workflow
from anabranch.workflows.schedules.schedule import Schedule

__all__ = ["CheckedSchedule", "Pin", "SaveVerdict", "ScheduleStore", "StoredSchedule"]

SaveVerdict = Literal["saved", "exists", "too_many", "absent", "of_workflow", "changed"]


@dataclass(frozen=True)
class CheckedSchedule:
    """A schedule with the workflow that it runs, its parts and the parameters that this one made of its inputs."""

    schedule: Schedule
    workflow: Workflow
    parts: Sequence[Workflow]
    parameters: JsonObject
    trouble: str | None = None


@dataclass(frozen=True)
class StoredSchedule:
    """A schedule as it is stored; `declared` is what was said of it, and `row` what its duty needs."""

    row: ScheduleRow
    declared: Schedule
    workflow: str
    origin: Literal["workflow", "api"]
    retired: bool
    waiting: int
    last_at: datetime | None
    last_state: str | None
    last_job_id: str | None
    paused_at: datetime | None
    paused_by: str | None
    made_at: datetime
    made_by: str
    changed_at: datetime
    looked_at: datetime | None
    look_error: str | None


@dataclass(frozen=True)
class Pin:
    """A stored schedule and what its workflow makes of it now; without a workflow, only the reason is stored."""

    row: ScheduleRow
    checked: CheckedSchedule | None
    trouble: str | None


class ScheduleStore(Protocol):
    """Schedules as their owners see them; a platform of None is the operator's view of all."""

    async def list_schedules(
        self, platform: str | None, name: str | None, *, before: int | None, limit: int
    ) -> list[StoredSchedule]: ...
    async def save(
        self, platform: str, name: str, version: int | None, checked: CheckedSchedule, by: ActionBy, *, most: int
    ) -> SaveVerdict: ...
    async def register(self, platform: str, found: Sequence[CheckedSchedule], *, complete: bool) -> list[str]:
        """Take over what workflow files declare; the names that other schedules have already."""

    async def pin(self, pins: Sequence[Pin]) -> int: ...
    async def pause(self, schedule: ScheduleRow, by: ActionBy, *, paused: bool) -> bool: ...
    async def remove(self, schedule: ScheduleRow, by: ActionBy) -> Literal["removed", "absent", "of_workflow"]: ...
    async def run(
        self, session: SessionId, schedule: ScheduleRow, tick: Tick, submission: Submission, by: ActionBy
    ) -> MadeTick | None: ...
    async def backfill(
        self, schedule: ScheduleRow, ticks: Sequence[Tick], by: ActionBy, *, dry_run: bool
    ) -> list[BackfillTick]: ...
    async def find_rights(self, platform: str, tier: str) -> ReadRights:
        """What new jobs of a platform may read of a tier."""

    async def history(self, schedule: ScheduleRow, *, before: datetime | None, limit: int) -> Page[ScheduleTick]: ...
