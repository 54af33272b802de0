"""The duty that looks at watched folders, and makes a job for each new or changed object."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from uuid import uuid4

import structlog

from anabranch.engine.advancing.advancer import BackgroundAdvances
from anabranch.engine.advancing.lanes import OpenLane
from anabranch.engine.model import SessionId
from anabranch.engine.ports import Refused, SessionGone
from anabranch.engine.sessions.doorbell import Doorbell
from anabranch.engine.submitting.schedules.ports import spell_instant
from anabranch.engine.submitting.submission import Submission, prepare_submission
from anabranch.engine.submitting.watching.listing import Listing
from anabranch.engine.submitting.watching.ports import FoundObject, Look, MadeObject, PreparedObject, WatchStore
from anabranch.engine.task_parameters import Definitions
from anabranch.errors import AnabranchError
from anabranch.storage.read_access import ReadRights
from anabranch.storage.tiers import Storage
from anabranch.workflows.definition import Workflow
from anabranch.workflows.inputs import check_inputs
from anabranch.workflows.schedules.schedule import mix_inputs
from anabranch.workflows.schedules.watch import describe_object

__all__ = ["Watcher"]

log = structlog.get_logger()
POLL_SECONDS = 1.0
TURN_INTERVAL = timedelta(seconds=5)
CLEAN_INTERVAL = timedelta(minutes=10)
SILENCE = timedelta(minutes=10)
KEEP_GONE = timedelta(days=7)
CONCURRENT_LOOKS = 4
BATCH_JOBS = 100


class Watcher:
    """Looks at watched folders under the session of its process; several processes may do so at once."""

    def __init__(
        self,
        store: WatchStore,
        storage: Storage,
        definitions: Definitions,
        advances: BackgroundAdvances,
        bell: Doorbell,
        session: SessionId,
    ) -> None:
        """Jobs begin in the commit that makes them; `advances` spend what rights are left."""
        self._store = store
        self._storage = storage
        self._definitions = definitions
        self._advances = advances
        self._bell = bell
        self._session = session
        self._looks: dict[int, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(CONCURRENT_LOOKS, thread_name_prefix="watcher")
        self._turn_at = self._clean_at = 0.0

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                try:
                    await self._keep_up()
                    await self._begin_looks()
                except AnabranchError as error:
                    log.warning("watcher.interrupted", reason=error.message)
                except Exception:  # the loop must go on; without its heartbeat, health shows it
                    log.exception("watcher.failed")
                if self._looks:
                    await asyncio.wait(self._looks.values(), timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(POLL_SECONDS)
        finally:
            for look in self._looks.values():
                look.cancel()
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> int:
        """Make the looks that are due, to their end; how many."""
        count = 0
        while begun := await self._begin_looks():
            count += begun
            await asyncio.gather(*self._looks.values())
        return count

    async def _begin_looks(self) -> int:
        """Begin looks that are due, a few at a time: a folder that does not answer must not keep the others waiting."""
        count = 0
        while len(self._looks) < CONCURRENT_LOOKS:
            look = await self._store.begin_look(self._session, list(self._looks), SILENCE)
            if look is None:
                break
            task = asyncio.create_task(self._look(look))
            self._looks[look.id] = task
            task.add_done_callback(partial(self._forget, look.id))
            count += 1
        return count

    def _forget(self, schedule: int, _: "asyncio.Task[None]") -> None:
        self._looks.pop(schedule, None)

    async def _keep_up(self) -> None:
        """Note that the duty is performed, and forget objects that are gone, now and then."""
        if time.monotonic() >= self._turn_at:
            await self._store.note_turn(self._session, TURN_INTERVAL)
            self._turn_at = time.monotonic() + TURN_INTERVAL.total_seconds()
        if time.monotonic() >= self._clean_at and not await self._store.remove_gone(KEEP_GONE):
            self._clean_at = time.monotonic() + CLEAN_INTERVAL.total_seconds()

    async def _look(self, look: Look) -> None:
        """One look; a folder that can't be listed is reported, and keeps no other from its look (E10)."""
        complete, trouble = False, None
        try:
            complete = await self._go_through(look)
        except SessionGone:
            return
        except AnabranchError as error:
            trouble = f"{look.folder} could not be looked at: {error.message}"
            log.warning("watch.interrupted", schedule=look.name, platform=look.platform, reason=error.message)
        except Exception as error:
            trouble = f"{look.folder} could not be looked at: {type(error).__name__}"
            log.exception("watch.failed", schedule=look.name, platform=look.platform)
        try:
            await self._store.end_look(self._session, look, complete=complete, trouble=trouble)
        except AnabranchError as error:  # this process takes the look up again
            log.warning("watch.not_ended", schedule=look.name, platform=look.platform, reason=error.message)

    async def _go_through(self, look: Look) -> bool:
        """Note all that there is, page by page, and make the jobs; False where the look is another's by now."""
        loop = asyncio.get_running_loop()

        def find_rights(tier: str, keys: Sequence[str]) -> ReadRights:
            asked = self._store.find_rights(look.platform, tier, keys)
            return asyncio.run_coroutine_threadsafe(asked, loop).result()

        listing = await loop.run_in_executor(self._threads, Listing, self._storage, look, find_rights)
        workflow = await self._definitions.get(look.workflow_hash)
        count, goes_on = 0, True
        while goes_on:
            page = await loop.run_in_executor(self._threads, listing.read)
            due = await self._store.note(self._session, look, page)
            if due is None:
                return False
            for start in range(0, len(due), BATCH_JOBS):
                batch = due[start : start + BATCH_JOBS]
                prepared = [self._prepare(look, workflow, one, count + place) for place, one in enumerate(batch)]
                count += len(batch)
                if not await self._submit(look, prepared):
                    return False
            goes_on = page.through is not None
        return True

    def _prepare(self, look: Look, workflow: Workflow, found: FoundObject, place: int) -> PreparedObject:
        build = partial(_build_submission, look, workflow, found, place)
        return PreparedObject(found, *prepare_submission(build, schedule=look.name, platform=look.platform))

    async def _submit(self, look: Look, prepared: Sequence[PreparedObject]) -> bool:
        """Make jobs; where the store refuses one, each by itself, so that only that one fails (E10)."""
        try:
            made = await self._store.submit(self._session, look, prepared)
        except Refused as error:
            if len(prepared) > 1:
                return all([await self._submit(look, [one]) for one in prepared])
            refused = PreparedObject(prepared[0].found, None, error.message)
            made = await self._store.submit(self._session, look, [refused])
        if made is None:
            return False
        self._start(look, prepared, made)
        return True

    def _start(self, look: Look, prepared: Sequence[PreparedObject], made: Sequence[MadeObject]) -> None:
        for one, answer in zip(prepared, made, strict=True):
            log.info("watch.found", schedule=look.name, platform=look.platform, object=str(one.found.at),
                     state=answer.state, job=answer.job_id)  # fmt: skip
            self._advances.start(answer.rights)
        first = [each for one in prepared if one.submission for each in one.submission.first_transitions or ()]
        self._bell.ring(each.queue for each in first if isinstance(each, OpenLane))


def _build_submission(look: Look, workflow: Workflow, found: FoundObject, place: int) -> Submission:
    """The job of an object: its scope is its place in the look, so that each version that is found gets a job."""
    described = describe_object(found.at, found.version, found.size, spell_instant(found.modified))
    mixed = mix_inputs(look.parameters, look.inputs, {"object": described})
    return Submission(
        workflow,
        mixed if workflow.inputs is None else check_inputs(workflow.inputs, mixed),
        f"schedule:{look.id}/look:{look.look}/{place}",
        workflow.priority,
        rerun=False,
        correlation_id=str(uuid4()),
        begins=True,
        by=f"schedule:{look.name}",
        labels={"schedule": look.name},
        by_scope=look.by_scope,
        platform=look.platform,
        tick={"scheduled_at": spell_instant(look.now.replace(microsecond=0)), "interval_start": None},
    ).sound()
