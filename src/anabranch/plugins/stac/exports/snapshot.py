"""Copies the documents of published collections out of the database, as one snapshot, with URLs of their files."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from anabranch.canonical import canonical
from anabranch.contract.published_links import name_files
from anabranch.engine.worker.context import Context
from anabranch.errors import InputError, NotFound
from anabranch.plugins.stac.collection import widen
from anabranch.plugins.stac.ingest.hrefs import keep_links
from anabranch.plugins.stac.pgstac.transaction import stream

__all__ = ["Document", "Snapshot", "copy_documents"]

Document = dict[str, Any]  # STAC that was validated when it was published
BATCH_BYTES = 8 * 2**20


class NamedFile(NamedTuple):
    """A file as its publication shows it."""

    publication: str
    name: str


@dataclass(frozen=True)
class Snapshot:
    """Documents in a file, one a line: each collection, and after it its items in the order of their ids."""

    path: Path
    collections: tuple[str, ...]
    items: int
    extent: Document
    """The union of the collections that have items."""

    def __iter__(self) -> Iterator[Document]:
        for batch in self.read_batches():
            yield from batch

    def read_batches(self) -> Iterator[list[Document]]:
        """The documents in lists whose size is bounded."""
        with self.path.open("rb") as lines:
            while batch := lines.readlines(BATCH_BYTES):  # whole lines, until they have this size
                yield list(map(json.loads, batch))


def copy_documents(ctx: Context, path: Path, collections: Sequence[str], root: str, *, max_items: int) -> Snapshot:
    """Write the documents of collections to a file, with URLs that begin with `root` for files and tables."""
    found: list[str] = []
    extents: list[Document] = []
    items = 0
    with ctx.catalog() as connection, path.open("w") as lines:
        for document, files in stream(connection, "list_published", collections=list(collections), job_id=ctx.job_id):
            if document["type"] == "Collection":
                found.append(document["id"])
                extents.append(document["extent"])
            else:
                items += 1
                if items > max_items:
                    raise _too_many(max_items)
            lines.write(canonical(_name_urls(document, files, root)) + "\n")
    if missing := [each for each in collections if each not in found]:
        what = f"there is no collection {missing[0]}"
        raise NotFound("catalog.no_collection", what, remedy="`/stac/collections` lists them.")
    if not items:
        what = f"there are no items in {', '.join(found)[:200]}"
        raise InputError("export.empty", what, remedy="Publish items first, or name other collections.")
    return Snapshot(path, tuple(found), items, _unite(extents))


def _name_urls(document: Document, files: Sequence[Document], root: str) -> Document:
    """The document with links that lead elsewhere only, and URLs in place of addresses."""
    named = {each["address"]: NamedFile(each["publication"], each["name"]) for each in files}
    shown: Document = name_files({**document, "links": keep_links(document, None)}, named, root)
    return shown


def _unite(extents: Sequence[Document]) -> Document:
    """The union of the extents that have an end: that of a collection without items has none."""
    spans = [(extent["spatial"]["bbox"][0], extent["temporal"]["interval"][0]) for extent in extents]
    times = ("start_datetime", "end_datetime")
    return widen(
        None,
        [{"bbox": box, "properties": dict(zip(times, span, strict=True))} for box, span in spans if None not in span],
    )


def _too_many(max_items: int) -> InputError:
    what = f"the collections have more than {max_items} items"
    return InputError("export.too_many", what, remedy="Export them in parts, or raise `stac_export_max_items`.")
