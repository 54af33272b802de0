"""Published files, by the names and items that readers know."""

from collections import ChainMap, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from anabranch.adapters.postgres.store.published.files import PublishedFile, StoredFile
from anabranch.contract.mosaic import DRAWN
from anabranch.contract.published_links import address_of

__all__ = ["FilesByItem", "Published", "mark_in_place"]

Item = Mapping[str, Any]  # STAC's own shape


class Published(Protocol):
    """Finds published files; others are not found."""

    def seen_by(self, platform: str | None) -> "Published":
        """The same for a platform, which finds the files of its own collections only; None: all."""

    async def find(self, publication: str, name: str) -> PublishedFile | None:
        """The file of a publication under this name; Gone if it was withdrawn or is no longer kept."""

    async def find_current(self, collection: str, item: str, name: str) -> PublishedFile | None:
        """The file that an item shows now under this name; Gone if the item was withdrawn."""

    async def find_draft(self, job: int, name: str) -> StoredFile | None:
        """A file that a job made and may publish under this name."""

    async def find_all(self, addresses: Collection[str]) -> Sequence[PublishedFile]:
        """The published files among these addresses, once for each item that shows it."""


class FilesByItem:
    """Published files, grouped once for all items of a page."""

    def __init__(self, files: Iterable[PublishedFile]) -> None:
        """Goes through the files once."""
        self._own = defaultdict[str, dict[str, PublishedFile]](dict)
        self._shared: dict[str, PublishedFile] = {}
        for file in files:
            self._own[file.key][file.address] = file
            if file.version is None:
                self._shared[file.address] = file

    def find(self, key: str = "") -> Mapping[str, PublishedFile]:
        """Files by address; of those that several items show, the ones of an item, `collection/item`.

        A file with a version, which others may replace, is only its own item's: another may show another version.
        """
        return ChainMap(self._own.get(key, {}), self._shared)

    def find_predecessor(self, key: str) -> int | None:
        """The number of an item's former publication that can still be read."""
        return next((file.predecessor for file in self._own.get(key, {}).values()), None)


def mark_in_place(item: Item, files: Mapping[str, PublishedFile]) -> Item:
    """The item, with those of its assets marked as not drawn whose files others may replace."""
    assets = item.get("assets")
    if not isinstance(assets, dict):
        return item
    return {**item, "assets": {name: _mark_asset(asset, files) for name, asset in assets.items()}}


def _mark_asset(asset: Any, files: Mapping[str, PublishedFile]) -> Any:  # as other programs may write it
    file = files.get(address_of(asset.get("href")) or "") if isinstance(asset, dict) else None
    return {**asset, DRAWN: False} if file and file.version else asset
