"""Loads mosaic documents, and finds only tiles that are published; nothing here imports GDAL."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import ValidationError

from anabranch.contract.mosaic import MosaicDocument, StoredFile
from anabranch.errors import AnabranchError
from anabranch.serving.objects import Objects, Remote
from anabranch.serving.published import FindsFiles

__all__ = ["MosaicSource", "MosaicSources"]

log = structlog.get_logger()

MAX_DOCUMENT_BYTES = 16 * 2**20
MAX_CACHED = 32


@dataclass(frozen=True)
class MosaicSource:
    """A mosaic document, and where its files are."""

    document: MosaicDocument
    locate: Callable[[StoredFile], Path | Remote]


class MosaicSources:
    """Caches documents; the content of an address never changes."""

    def __init__(self, published: FindsFiles, objects: Objects) -> None:
        """The cache is empty."""
        self._published = published
        self._objects = objects
        self._platform: str | None = None
        self._known: dict[tuple[str | None, str], MosaicSource] = {}

    def seen_by(self, platform: str | None) -> "MosaicSources":
        """The same for a platform, whose mosaics have tiles of its own collections only; None: all."""
        seen = copy.copy(self)
        seen._platform, seen._published = platform, self._published.seen_by(platform)
        return seen

    async def load(self, address: str) -> MosaicSource:
        """The mosaic of a document."""
        key = self._platform, address
        if key not in self._known:
            if len(self._known) >= MAX_CACHED:
                self._known.clear()
            self._known[key] = await self._load(address)
        return self._known[key]

    async def _load(self, address: str) -> MosaicSource:
        size = await self._objects.size(address)
        if size > MAX_DOCUMENT_BYTES:
            raise _unreadable(f"{address} has {size} bytes")
        content = b"".join([piece async for piece in self._objects.read(address, 0, size)])
        try:
            document = MosaicDocument.model_validate_json(content)
        except ValidationError as error:
            raise _unreadable(f"{address} is not a mosaic document: {error}") from error
        wanted = {document.overview.address, *(tile.address for tile in document.tiles)}
        if missing := wanted - {
            file.address for file in await self._published.find_all(wanted) if file.version is None
        }:
            raise _unreadable(f"{len(missing)} tiles of {address} are not published")
        return MosaicSource(document, self._locate)

    def _locate(self, file: StoredFile) -> Path | Remote:
        return self._objects.find(file.address, file.size)


def _unreadable(reason: str) -> AnabranchError:
    log.warning("asset.unreadable", reason=reason)
    return AnabranchError("asset.unreadable", "the raster can't be read; see the API's log")
