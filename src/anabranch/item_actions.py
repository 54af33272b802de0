"""The way back for people: withdraws, restores and rolls back items, and removes empty collections."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import translate
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.contract.catalog import ItemChange

__all__ = ["CONNECTIONS", "Action", "ItemAction", "ItemActions"]

CONNECTIONS = 1
Action = Literal["withdraw", "restore", "rollback"]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class ItemAction:
    """What to do with an item, by whom and why; `owner` limits it to that owner's items."""

    action: Action
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

    def __init__(self, url: str, reads: PostgresReads, restore_window: timedelta) -> None:
        self._url = url
        self._reads = reads
        self._window = restore_window
        self._one = asyncio.Lock()

    async def act(self, wanted: ItemAction) -> ItemChange:
        """Do it, or find out what it would do."""
        from anabranch.plugins.stac.catalog import By, act  # late: few processes ever need the schemas

        by = By(owner=wanted.owner, actor=wanted.actor, reason=wanted.reason)
        done = await self._alone(
            lambda connection: act(
                connection, wanted.action, wanted.collection, wanted.item, by,
                number=wanted.number, expected=wanted.expected, dry_run=wanted.dry_run,
            )
        )  # fmt: skip
        files = await self._reads.items().affected(done.source)
        return ItemChange(
            collection=done.collection, id=done.item, action=done.action, number=done.number, dry_run=wanted.dry_run,
            shows=done.shows, objects=len(files), bytes=sum(file.size for file in files), files=tuple(files),
            restorable_days=self._window.days if wanted.action == "withdraw" else None,
        )  # fmt: skip

    async def remove_collection(self, collection: str, actor: str) -> None:
        """Remove a collection that has no items; its history and that of the items that it had stays."""
        from anabranch.plugins.stac.catalog import By, remove_collection

        await self._alone(lambda connection: remove_collection(connection, collection, By(actor=actor)))

    async def _alone(self, work: Callable[[Any], Answer]) -> Answer:
        def guarded() -> Answer:
            with translate(self._url), connect(self._url, Role.HANDLER, name="anabranch items") as connection:
                return work(connection)

        async with self._one:
            return await asyncio.to_thread(guarded)
