"""Schedules, and their ticks."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from anabranch.client.paths import any_segment
from anabranch.client.requests import AsyncRequests, Requests
from anabranch.contract.answer import Page
from anabranch.contract.schedules import Backfill, Schedule, ScheduleRun, ScheduleTick

if TYPE_CHECKING:
    from anabranch.canonical import Json

__all__ = ["AsyncSchedules", "Schedules"]

ROOT = "/api/schedules"


class Schedules(Requests):
    """Requests about schedules; an admin names the platform of another's."""

    def add(
        self,
        name: str,
        workflow: str,
        cron: str | None = None,
        *,
        timezone: str | None = None,
        inputs: Mapping[str, "Json"] | None = None,
        overlap: str | None = None,
        catch_up: str | None = None,
        watch: str | None = None,
        pattern: str | None = None,
        stable_seconds: int | None = None,
        poll_seconds: int | None = None,
        existing: str | None = None,
        platform: str | None = None,
    ) -> Schedule:
        """Add a schedule: of a cron expression, from now on, or of a folder to watch."""
        given = _given(
            name=name, workflow=workflow, cron=cron, timezone=timezone, inputs=inputs, overlap=overlap,
            catch_up=catch_up, watch=watch, pattern=pattern, stable_seconds=stable_seconds, poll_seconds=poll_seconds,
            existing=existing, platform=platform,
        )  # fmt: skip
        return self._send(Schedule, "POST", ROOT, given)

    def list(self) -> Iterator[Schedule]:
        """Schedules, the newest first, a page at a time."""
        return self._all(lambda before: self._get(Page[Schedule], ROOT, before=before))

    def show(self, name: str, *, platform: str | None = None) -> Schedule:
        """A schedule."""
        return self._get(Schedule, _path(name), platform=platform)

    def change(
        self,
        name: str,
        *,
        workflow: str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        inputs: Mapping[str, "Json"] | None = None,
        overlap: str | None = None,
        catch_up: str | None = None,
        watch: str | None = None,
        pattern: str | None = None,
        stable_seconds: int | None = None,
        poll_seconds: int | None = None,
        existing: str | None = None,
        platform: str | None = None,
    ) -> Schedule:
        """Change what is given of a schedule."""
        given = _given(
            workflow=workflow, cron=cron, timezone=timezone, inputs=inputs, overlap=overlap, catch_up=catch_up,
            watch=watch, pattern=pattern, stable_seconds=stable_seconds, poll_seconds=poll_seconds, existing=existing,
        )  # fmt: skip
        return self._send(Schedule, "PATCH", _path(name), given, platform=platform)

    def remove(self, name: str, *, platform: str | None = None) -> Schedule:
        """Remove a schedule with its history, and return what it was; its jobs stay."""
        return self._send(Schedule, "DELETE", _path(name), platform=platform)

    def pause(self, name: str, *, platform: str | None = None) -> Schedule:
        """Make no more ticks until the schedule is resumed."""
        return self._send(Schedule, "POST", f"{_path(name)}/pause", platform=platform)

    def resume(self, name: str, *, platform: str | None = None) -> Schedule:
        """Make ticks again, from now on."""
        return self._send(Schedule, "POST", f"{_path(name)}/resume", platform=platform)

    def run(self, name: str, *, platform: str | None = None) -> ScheduleRun:
        """Make a job now."""
        return self._send(ScheduleRun, "POST", f"{_path(name)}/run", platform=platform)

    def history(self, name: str, *, platform: str | None = None) -> Iterator[ScheduleTick]:
        """The ticks that were dealt with, the newest first, a page at a time."""
        path = f"{_path(name)}/history"
        return self._all(lambda before: self._get(Page[ScheduleTick], path, before=before, platform=platform))

    def backfill(
        self,
        name: str,
        begin: datetime,
        end: datetime,
        *,
        limit: int | None = None,
        dry_run: bool = False,
        platform: str | None = None,
    ) -> Backfill:
        """Make the jobs of ticks of the past, one after another, or only say which there would be."""
        given = _given(begin=begin.isoformat(), end=end.isoformat(), limit=limit, dry_run=dry_run)
        return self._send(Backfill, "POST", f"{_path(name)}/backfill", given, platform=platform)


class AsyncSchedules(AsyncRequests):
    """Requests about schedules; an admin names the platform of another's."""

    async def add(
        self,
        name: str,
        workflow: str,
        cron: str | None = None,
        *,
        timezone: str | None = None,
        inputs: Mapping[str, "Json"] | None = None,
        overlap: str | None = None,
        catch_up: str | None = None,
        watch: str | None = None,
        pattern: str | None = None,
        stable_seconds: int | None = None,
        poll_seconds: int | None = None,
        existing: str | None = None,
        platform: str | None = None,
    ) -> Schedule:
        """Add a schedule: of a cron expression, from now on, or of a folder to watch."""
        given = _given(
            name=name, workflow=workflow, cron=cron, timezone=timezone, inputs=inputs, overlap=overlap,
            catch_up=catch_up, watch=watch, pattern=pattern, stable_seconds=stable_seconds, poll_seconds=poll_seconds,
            existing=existing, platform=platform,
        )  # fmt: skip
        return await self._send(Schedule, "POST", ROOT, given)

    def list(self) -> AsyncIterator[Schedule]:
        """Schedules, the newest first, a page at a time."""
        return self._all(lambda before: self._get(Page[Schedule], ROOT, before=before))

    async def show(self, name: str, *, platform: str | None = None) -> Schedule:
        """A schedule."""
        return await self._get(Schedule, _path(name), platform=platform)

    async def change(
        self,
        name: str,
        *,
        workflow: str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        inputs: Mapping[str, "Json"] | None = None,
        overlap: str | None = None,
        catch_up: str | None = None,
        watch: str | None = None,
        pattern: str | None = None,
        stable_seconds: int | None = None,
        poll_seconds: int | None = None,
        existing: str | None = None,
        platform: str | None = None,
    ) -> Schedule:
        """Change what is given of a schedule."""
        given = _given(
            workflow=workflow, cron=cron, timezone=timezone, inputs=inputs, overlap=overlap, catch_up=catch_up,
            watch=watch, pattern=pattern, stable_seconds=stable_seconds, poll_seconds=poll_seconds, existing=existing,
        )  # fmt: skip
        return await self._send(Schedule, "PATCH", _path(name), given, platform=platform)

    async def remove(self, name: str, *, platform: str | None = None) -> Schedule:
        """Remove a schedule with its history, and return what it was; its jobs stay."""
        return await self._send(Schedule, "DELETE", _path(name), platform=platform)

    async def pause(self, name: str, *, platform: str | None = None) -> Schedule:
        """Make no more ticks until the schedule is resumed."""
        return await self._send(Schedule, "POST", f"{_path(name)}/pause", platform=platform)

    async def resume(self, name: str, *, platform: str | None = None) -> Schedule:
        """Make ticks again, from now on."""
        return await self._send(Schedule, "POST", f"{_path(name)}/resume", platform=platform)

    async def run(self, name: str, *, platform: str | None = None) -> ScheduleRun:
        """Make a job now."""
        return await self._send(ScheduleRun, "POST", f"{_path(name)}/run", platform=platform)

    def history(self, name: str, *, platform: str | None = None) -> AsyncIterator[ScheduleTick]:
        """The ticks that were dealt with, the newest first, a page at a time."""
        path = f"{_path(name)}/history"
        return self._all(lambda before: self._get(Page[ScheduleTick], path, before=before, platform=platform))

    async def backfill(
        self,
        name: str,
        begin: datetime,
        end: datetime,
        *,
        limit: int | None = None,
        dry_run: bool = False,
        platform: str | None = None,
    ) -> Backfill:
        """Make the jobs of ticks of the past, one after another, or only say which there would be."""
        given = _given(begin=begin.isoformat(), end=end.isoformat(), limit=limit, dry_run=dry_run)
        return await self._send(Backfill, "POST", f"{_path(name)}/backfill", given, platform=platform)


def _path(name: str) -> str:
    return f"{ROOT}/{any_segment(name)}"


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
