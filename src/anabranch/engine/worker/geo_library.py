"""What `ctx.geo` offers: names for a handler's own tables in schema geo, and publishing them as layers."""

import datetime as dt
from typing import Protocol

from anabranch.strict_model import StrictModel

__all__ = ["GeoLibrary", "PublishedTable"]


class PublishedTable(StrictModel):
    """A layer that readers see: its item in the catalog, and its view in schema geo."""

    collection: str
    id: str
    table: str
    rows: int


class GeoLibrary(Protocol):
    """A handler's own tables in schema geo; its methods block, so an async handler calls them in a thread."""

    def scratch_table(self, name: str) -> str:
        """The name of a table of this task's own, the same for all of its attempts."""

    def publish_table(
        self,
        table: str,
        name: str,
        *,
        collection: str = "process_vector",
        title: str | None = None,
        description: str | None = None,
        datetime: dt.datetime | None = None,
        reason: str | None = None,
        expected: int | None = None,
    ) -> PublishedTable:
        """Publish a table that handlers made in schema geo as the layer `name`: all of it, or nothing.

        The table leaves under its own name. A layer of this name is replaced. `expected` is the number that the item
        had when the caller looked, 0 for none. A repeated attempt of the task publishes nothing twice.
        """
