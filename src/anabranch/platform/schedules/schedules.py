"""Schedules as their owners make, change and run them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from anabranch.canonical import Json
from anabranch.contract.answer import Page
from anabranch.contract.schedules import Backfill, Schedule, ScheduleRun, ScheduleTick
from anabranch.engine.model import SessionId
from anabranch.engine.ports import TakenRight
from anabranch.engine.submitting.schedules.ports import Tick
from anabranch.engine.submitting.schedules.scheduler import build_submission
from anabranch.engine.submitting.submission import Submission
from anabranch.enums import DEFAULT_PLATFORM
from anabranch.errors import AnabranchError, Conflict, InputError, NotFound
from anabranch.platform.action_by import ActionBy
from anabranch.platform.schedules.ports import CheckedSchedule, Pin, ScheduleStore, StoredSchedule
from anabranch.storage.addresses import parse_folder
from anabranch.storage.read_access import require_watchable
from anabranch.workflows.expressions import ExpressionError
from anabranch.workflows.mistakes import Mistake
from anabranch.workflows.schedules import schedule as declared
from anabranch.workflows.schedules.cron import list_ticks, next_tick
from anabranch.workflows.schedules.schedule import fill_inputs, find_schedule_mistakes
from anabranch.workflows.schedules.watch import Existing
from anabranch.workflows.stages import Declaration

__all__ = ["MAX_BACKFILL_TICKS", "MAX_SCHEDULES", "ScheduleChange", "Schedules"]

log = structlog.get_logger()
MAX_SCHEDULES = 1_000  # of a platform
MAX_BACKFILL_TICKS = 1_000
PAGE = 500


@dataclass(frozen=True)
class ScheduleChange:
    """What is set or changed of a schedule; None leaves it as it is."""

    workflow: str | None = None
    cron: str | None = None
    timezone: str | None = None
    inputs: Mapping[str, Json] | None = None
    overlap: declared.Overlap | None = None
    catch_up: declared.CatchUp | None = None
    watch: str | None = None
    pattern: str | None = None
    stable_seconds: int | None = None
    poll_seconds: int | None = None
    existing: Existing | None = None

    def apply_to(self, known: declared.Schedule) -> declared.Schedule:
        """The schedule as it is to be."""
        given = {name: value for name, value in vars(self).items() if value is not None and name != "workflow"}
        return replace(known, **given)


class Schedules:
    """Schedules of platforms; `find` gives the declaration of a workflow, and jobs are made under a session."""

    def __init__(
        self,
        store: ScheduleStore,
        find: Callable[[str], Declaration],
        session: Callable[[], SessionId],
        start: Callable[[Sequence[TakenRight]], None],
    ) -> None:
        """`start` spends the rights to advance new jobs."""
        self._store = store
        self._find = find
        self._session = session
        self._start = start

    async def list_page(self, platform: str | None, *, before: int | None, limit: int) -> Page[Schedule]:
        """Schedules, the newest first."""
        found = await self._store.list_schedules(platform, None, before=before, limit=limit + 1)
        more = str(found[limit - 1].row.id) if len(found) > limit else None
        return Page(tuple(map(_show, found[:limit])), more)

    async def show(self, platform: str, name: str) -> Schedule:
        """A schedule."""
        return _show(await self._get(platform, name))

    async def add(self, platform: str, name: str, wanted: ScheduleChange, by: ActionBy) -> Schedule:
        """Add a schedule; Conflict if the name is taken."""
        checked = self._check(self._find(wanted.workflow or ""), wanted.apply_to(declared.Schedule()), platform)
        await self._require_watchable(platform, checked.schedule.watch)
        await self._save(platform, name, None, checked, by)
        return await self.show(platform, name)

    async def change(self, platform: str, name: str, change: ScheduleChange, by: ActionBy) -> Schedule:
        """Change what is given of a schedule."""
        known = await self._get(platform, name)
        if known.origin == "workflow":
            raise _of_workflow(known)
        wanted = change.apply_to(known.declared)
        checked = self._check(self._find(change.workflow or known.workflow), wanted, platform)
        await self._require_watchable(platform, wanted.watch)
        await self._save(platform, name, known.row.version, checked, by)
        return await self.show(platform, name)

    async def remove(self, platform: str, name: str, by: ActionBy) -> Schedule:
        """Remove a schedule with its history; the answer is what it was."""
        known = await self._get(platform, name)
        verdict = await self._store.remove(known.row, by)
        if verdict == "of_workflow":
            raise _of_workflow(known)
        if verdict == "absent":
            raise _unknown(name)
        return _show(known)

    async def pause(self, platform: str, name: str, by: ActionBy, *, paused: bool) -> Schedule:
        """Pause a schedule, or let it go on."""
        if not await self._store.pause((await self._get(platform, name)).row, by, paused=paused):
            raise _unknown(name)
        return await self.show(platform, name)

    async def run(self, platform: str, name: str, by: ActionBy) -> ScheduleRun:
        """Make a job now, whatever other jobs of it go on."""
        known = _require_ticks(_require_scope(_require_live(await self._get(platform, name)), by))
        if known.row.trouble:
            raise Conflict("schedule.broken", f"schedule {name} can't have jobs: {known.row.trouble}")
        workflow = self._find(known.workflow).workflow
        tick = Tick.of(known.row.cron, known.row.timezone, known.row.now)
        try:
            submission = build_submission(known.row, workflow, tick, by.actor)
        except ExpressionError as error:
            raise InputError("job.parameters", f"{error.message}. {error.hint}".strip()) from error
        made = await self._store.run(self._session(), known.row, tick, submission, by)
        if made is None:
            raise _changed(name)
        self._start(made.rights)
        return ScheduleRun(tick.at, made.state, made.job_id)  # type: ignore[arg-type]  # one of them

    async def backfill(
        self, platform: str, name: str, begin: datetime, end: datetime, limit: int, by: ActionBy, *, dry_run: bool
    ) -> Backfill:
        """Let the ticks of a range of the past wait for their jobs, which are made one after another."""
        known = _require_ticks(_require_scope(_require_live(await self._get(platform, name)), by))
        zone, cron, until = known.row.timezone, known.row.cron, min(end, known.row.now)
        found = list_ticks(cron, zone, begin - begin.resolution, until, limit + 1)
        if len(found) > limit:
            message = f"the range has more than {limit} ticks, the last of these at {found[limit - 1].isoformat()}"
            raise InputError("schedule.backfill", message, remedy="Choose a shorter range, or raise the limit.")
        ticks = [Tick.of(cron, zone, at) for at in found]
        answered = await self._store.backfill(known.row, ticks, by, dry_run=dry_run)
        return Backfill(dry_run, tuple(answered), sum(one.runs for one in answered))

    async def history(self, platform: str, name: str, *, before: datetime | None, limit: int) -> Page[ScheduleTick]:
        """The ticks of a schedule, the newest first."""
        return await self._store.history((await self._get(platform, name)).row, before=before, limit=limit)

    async def follow_workflows(self, declarations: Sequence[Declaration], *, complete: bool) -> None:
        """Take over the schedules of workflow files, and pin all others to their workflows as they are now.

        Those that no file declares are retired where the declarations are `complete`.
        """
        found = [self._check_own(one) for one in declarations if one.workflow.schedule is not None]
        for name in await self._store.register(DEFAULT_PLATFORM, found, complete=complete):
            log.warning("schedule.name_taken", schedule=name, remedy="Remove the schedule that was made by the API.")
        known = {one.workflow.id: one for one in declarations}
        pins = [pin for one in await self._all() if one.origin == "api" for pin in self._pin(one, known)]
        if pins:
            await self._store.pin(pins)

    def _check_own(self, found: Declaration) -> CheckedSchedule:
        """The schedule of a workflow's file; with the reason where its inputs are refused."""
        schedule = found.workflow.schedule or declared.Schedule()
        try:
            return self._check(found, schedule, DEFAULT_PLATFORM)
        except InputError as error:
            log.warning("schedule.refused", schedule=found.workflow.id, reason=error.message)
            return CheckedSchedule(schedule, found.workflow, found.parts, {}, error.message)

    def _pin(self, stored: StoredSchedule, known: Mapping[str, Declaration]) -> list[Pin]:
        """What changes of a schedule because of its workflow."""
        checked, trouble = None, None
        if found := known.get(stored.workflow):
            try:
                checked = self._check(found, stored.declared, stored.row.platform)
            except InputError as error:
                trouble = error.message
        else:
            trouble = f"there is no workflow {stored.workflow!r} any more"
        is_same = checked is None or (
            checked.workflow.hash == stored.row.workflow_hash and checked.parameters == stored.row.parameters
        )
        return [] if is_same and trouble == stored.row.trouble else [Pin(stored.row, checked, trouble)]

    def _check(self, found: Declaration, schedule: declared.Schedule, platform: str) -> CheckedSchedule:
        """A schedule whose inputs its workflow takes, or InputError."""
        mistakes = list(find_schedule_mistakes(schedule, found.workflow.inputs))
        if mistakes:
            raise InputError("job.parameters", "; ".join(map(_spell, mistakes)))
        parameters = found.check(fill_inputs(schedule.inputs or {}, schedule.sample))
        Submission(
            found.workflow, parameters, platform, 1, rerun=False, correlation_id=""
        ).sound().require_own_uploads()
        return CheckedSchedule(schedule, found.workflow, found.parts, parameters)

    async def _require_watchable(self, platform: str, folder: str | None) -> None:
        """Refuse a folder that jobs of the platform may not read."""
        if folder is not None:
            at = parse_folder(folder)
            require_watchable(platform, at, await self._store.find_rights(platform, at.tier))

    async def _save(
        self, platform: str, name: str, version: int | None, checked: CheckedSchedule, by: ActionBy
    ) -> None:
        match await self._store.save(platform, name, version, checked, by, most=MAX_SCHEDULES):
            case "exists":
                raise Conflict("schedule.exists", f"there is a schedule {name} already")
            case "too_many":
                raise Conflict("schedule.too_many", f"platform {platform} has {MAX_SCHEDULES} schedules")
            case "absent":
                raise _unknown(name)
            case "of_workflow" | "changed":
                raise _changed(name)
            case _:
                pass

    async def _get(self, platform: str, name: str) -> StoredSchedule:
        found = await self._store.list_schedules(platform, name, before=None, limit=1)
        if not found:
            raise _unknown(name)
        return found[0]

    async def _all(self) -> list[StoredSchedule]:
        found: list[StoredSchedule] = []
        while page := await self._store.list_schedules(
            None, None, before=found[-1].row.id if found else None, limit=PAGE
        ):
            found += page
        return found


def _show(stored: StoredSchedule) -> Schedule:
    row, known = stored.row, stored.declared
    is_active = not (stored.retired or stored.paused_at)
    status = "retired" if stored.retired else "paused" if stored.paused_at else "broken" if row.trouble else "active"
    return Schedule(
        name=row.name,
        platform=row.platform,
        origin=stored.origin,
        workflow=stored.workflow,
        cron=known.cron,
        timezone=known.timezone,
        inputs=dict(known.inputs or {}),
        overlap=known.overlap.value,
        catch_up=known.catch_up.value,
        status=status,  # type: ignore[arg-type]  # one of them
        error=row.trouble,
        next_at=next_tick(known.cron, known.timezone, max(row.after, row.now)) if known.cron and is_active else None,
        waiting=stored.waiting,
        last_at=stored.last_at,
        last_state=stored.last_state,  # type: ignore[arg-type]  # one of them
        last_job_id=stored.last_job_id,
        paused_at=stored.paused_at,
        paused_by=stored.paused_by,
        made_at=stored.made_at,
        made_by=stored.made_by,
        changed_at=stored.changed_at,
        watch=known.watch,
        pattern=known.pattern,
        stable_seconds=known.stable_seconds if known.watch else None,
        poll_seconds=known.poll_seconds if known.watch else None,
        existing=known.existing.value if known.watch else None,
        looked_at=stored.looked_at,
        look_error=stored.look_error,
    )


def _require_live(known: StoredSchedule) -> StoredSchedule:
    if known.retired:
        message = f"the workflow {known.workflow} has no schedule any more"
        raise Conflict("schedule.retired", message, remedy="Add a schedule to its file, or one of your own.")
    return known


def _require_ticks(known: StoredSchedule) -> StoredSchedule:
    if known.declared.watch is not None:
        message = f"schedule {known.row.name} watches {known.declared.watch} and has no ticks but its objects"
        remedy = f"Submit a job of {known.workflow} for one object by `anabranch submit`."
        raise Conflict("schedule.watches", message, remedy=remedy)
    return known


def _require_scope(known: StoredSchedule, by: ActionBy) -> StoredSchedule:
    """Its jobs act by the scope of the schedule: who makes one must have that."""
    needed = known.row.by_scope
    if needed is not None and not (by.scope and by.scope.includes(needed)):
        message = f"the jobs of schedule {known.row.name} act by the scope {needed}, which you don't have"
        raise AnabranchError("auth.forbidden", message, remedy=f"Use a key or a token with the scope {needed}.")
    return known


def _spell(mistake: Mistake) -> str:
    return f"{mistake.message} {mistake.hint}".strip()


def _unknown(name: str) -> NotFound:
    remedy = "List them with `anabranch schedules list`."
    return NotFound("schedule.not_found", f"there is no schedule {name!r}", remedy=remedy)


def _changed(name: str) -> AnabranchError:
    return Conflict("schedule.changed", f"schedule {name} was changed meanwhile", remedy="Look at it and try again.")


def _of_workflow(known: StoredSchedule) -> Conflict:
    message = f"schedule {known.row.name} is declared by the file of the workflow {known.workflow}"
    return Conflict("schedule.of_workflow", message, remedy="Change the file; pausing needs no change of it.")
