"""The way back for people: withdraws, restores and rolls back items, and removes empty collections."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import translate
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.contract.catalog import CollectionAccess, ItemAct, ItemChange
from anabranch.errors import Conflict, NotFound, Transient, Unavailable
from anabranch.platform.action_by import ActionBy
from anabranch.storage.tiers import Storage

if TYPE_CHECKING:
    from anabranch.plugins.stac.catalog import Acted

__all__ = ["CONNECTIONS", "ItemAction", "ItemActions"]

CONNECTIONS = 1
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class ItemAction:
    """What to do with an item, by whom and why; `owner` limits it to that owner's items."""

    action: ItemAct
    collection: str
    item: str
    actor: str
    reason: str
    owner: str | None = None
    number: int | None = None
    expected: int | None = None
    dry_run: bool = False


class ItemActions:
    """Changes what readers see, over one connection at a time, which is opened for it."""

    def __init__(
        self, url: str, store: PostgresStore, reads: PostgresReads, storage: Storage, restore_window: timedelta
    ) -> None:
        self._url = url
        self._store = store
        self._reads = reads
        self._storage = storage
        self._window = restore_window
        self._one = asyncio.Lock()

    async def act(self, wanted: ItemAction) -> ItemChange:
        """Do it, or find out what it would do; a file in place that others have replaced is not shown again."""
        if wanted.action != "withdraw":
            (planned,) = await self._act(lambda _: [wanted], dry_run=True)
            await self.require_versions(planned.source)
        (done,) = await self._act(lambda _: [wanted], dry_run=wanted.dry_run)
        files = await self._reads.items().affected(done.source)
        return ItemChange(
            collection=done.collection, id=done.item, action=done.action, number=done.number, dry_run=wanted.dry_run,
            shows=done.shows, objects=len(files), bytes=sum(file.size for file in files), files=tuple(files),
            restorable_days=self._window.days if wanted.action == "withdraw" else None,
        )  # fmt: skip

    async def act_in_one_transaction(self, begin: Callable[[Any], Sequence[ItemAction]]) -> None:
        """Do what `begin` returns, all or none; it is called first, in the same transaction."""
        await self._act(begin, dry_run=False)

    async def _act(self, begin: Callable[[Any], Sequence[ItemAction]], *, dry_run: bool) -> "Sequence[Acted]":
        from anabranch.plugins.stac.catalog import By, Move, act_on_items  # late: few processes ever need the schemas

        def work(connection: Any) -> "Sequence[Acted]":  # psycopg's
            with connection.transaction(force_rollback=dry_run):
                return [
                    acted
                    for (action, collection, by), same in groupby(begin(connection), key=alike)
                    for acted in act_on_items(
                        connection, action, collection,
                        [Move(one.item, one.number, one.expected) for one in same], by, dry_run=dry_run,
                    )
                ]  # fmt: skip

        def alike(one: ItemAction) -> tuple[ItemAct, str, By]:
            return one.action, one.collection, By(owner=one.owner, actor=one.actor, reason=one.reason)

        return await self._alone(work)

    async def require_versions(self, publication: str) -> None:
        """Conflict if a file in place of a publication was replaced or removed since."""
        for address, version in await self._reads.items().pinned(publication):
            if await asyncio.to_thread(self._find_version, address) != version:
                raise Conflict(
                    "publication.expired",
                    f"{address} was replaced or removed after it was published in place",
                    remedy="Choose another number, or catalog the folder again.",
                )

    def _find_version(self, address: str) -> str | None:
        with suppress(NotFound):
            return self._storage.stat(address).tag
        return None

    async def remove_collection(self, collection: str, actor: str) -> None:
        """Remove a collection that has no items; its history and that of the items that it had stays."""
        from anabranch.plugins.stac.catalog import By, remove_collection

        await self._alone(lambda connection: remove_collection(connection, collection, By(actor=actor)))

    async def change_writer(self, collection: str, writer: str, by: ActionBy, *, adds: bool) -> CollectionAccess:
        """Let a platform publish into a collection, or not any more."""
        items = self._reads.seen_by(by.owner).items()
        found = await items.access(collection)
        if not await self._store.change_writer(collection, writer, by, adds=adds):
            what = f"collection {collection} belongs to another platform"
            raise Conflict("publication.owner", what, remedy=f"Ask an administrator, or {found.platform}.")
        return await items.access(collection)

    async def _alone(self, work: Callable[[Any], Answer]) -> Answer:
        def guarded() -> Answer:
            try:
                with translate(self._url), connect(self._url, Role.HANDLER, name="anabranch items") as connection:
                    return work(connection)
            except Transient as error:  # which a task would be tried again for
                raise Unavailable(error.code, error.message, remedy="Nothing was changed; try again.") from error

        async with self._one:
            return await asyncio.to_thread(guarded)
