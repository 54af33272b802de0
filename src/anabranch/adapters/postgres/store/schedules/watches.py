"""What schedules watch, in schema app, by its functions only."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from psycopg.rows import DictRow

from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.store.rows import read_rights, write_batch
from anabranch.canonical import JsonObject, encode
from anabranch.engine.model import SessionId
from anabranch.engine.submitting.watching.ports import FoundObject, Look, LookPage, MadeObject, PreparedObject
from anabranch.enums import Scope
from anabranch.storage.addresses import parse_folder
from anabranch.storage.read_access import ReadRights

__all__ = ["PostgresWatches"]

DUTY = "watcher"
BATCH_OBJECTS = 1_000


class PostgresWatches:
    """Watched folders for the processes that look at them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_rights(self, platform: str, tier: str, keys: Sequence[str]) -> ReadRights:
        """What a new job of a platform may read, as far as some objects of a tier need it."""
        (row,) = await self._database.call("find_readable", platform, "", tier, list(keys))
        return ReadRights(**row)

    async def begin_look(self, session: SessionId, busy: Sequence[int], silence: timedelta) -> Look | None:
        """Take over a look that is due; one that did not get on for so long counts as nobody's."""
        rows = await self._database.call("begin_look", session, list(busy), silence)
        return _read_look(rows[0]) if rows else None

    async def note(self, session: SessionId, look: Look, page: LookPage) -> list[FoundObject] | None:
        """Note a page; those of its objects that need a job now. None where the look is over."""
        by_address = {str(one.at): one for one in page.objects}
        listed = encode([_write_object(one) for one in page.objects])
        known = page.after, page.through, listed, look.stable, look.skips_existing
        due = await self._value("note_objects", session, look.id, look.version, look.look, *known)
        return None if due is None else [by_address[address] for address in due]

    async def submit(
        self, session: SessionId, look: Look, prepared: Sequence[PreparedObject]
    ) -> list[MadeObject] | None:
        """Make the jobs of objects in one commit with their ticks, all or none. None where the look is over."""
        ordered = sorted(prepared, key=lambda one: one.submission is None)  # so that submissions have their places
        batch = write_batch([one.submission for one in ordered if one.submission])
        objects = encode(
            [{**_write_object(one.found), "place": place, "reason": one.reason} for place, one in enumerate(ordered)]
        )
        known = look.id, look.version, look.look
        rows = await self._database.call("submit_objects", session, *batch, *known, objects)
        made = {row["object"]: MadeObject(row["state"], row["job_id"], tuple(read_rights(row))) for row in rows}
        return [made[str(one.found.at)] for one in prepared] if made else None

    async def end_look(self, session: SessionId, look: Look, *, complete: bool, trouble: str | None) -> bool:
        """End a look; False where another process looks by now."""
        return bool(await self._value("end_look", session, look.id, look.look, complete, trouble))

    async def remove_gone(self, age: timedelta) -> int:
        """Forget some objects that are gone for so long; how many, and 0 at the end."""
        return int(await self._value("remove_gone_objects", age, BATCH_OBJECTS))

    async def note_turn(self, session: SessionId, every: timedelta) -> None:
        """Note that the duty is performed (O2)."""
        await self._database.call("note_turn", DUTY, session, every)

    async def _value(self, function: str, *arguments: object) -> Any:  # each caller says which type
        (row,) = await self._database.call(function, *arguments)
        return next(iter(row.values()))


def _read_look(row: DictRow) -> Look:
    watch, scope = row.pop("watch"), row.pop("by_scope")
    return Look(
        **row,
        by_scope=scope and Scope(scope),
        folder=parse_folder(watch["watch"]),
        pattern=watch["pattern"],
        stable=timedelta(seconds=watch["stable_seconds"]),
        skips_existing=watch["existing"] == "skip",
    )


def _write_object(found: FoundObject) -> JsonObject:
    modified = found.modified.isoformat()
    return {"address": str(found.at), "version": found.version, "size": found.size, "modified": modified}
