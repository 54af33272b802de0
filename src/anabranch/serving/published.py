"""Published files, and the URLs that readers see in place of storage addresses."""

import re
from collections import ChainMap, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from anabranch.adapters.postgres.store.published_files import PublishedFile, StoredFile
from anabranch.contract.mosaic import DRAWN

__all__ = ["FilesByItem", "Published", "address_of", "find_addresses", "mark_in_place", "name_files", "path_of",
           "table_of"]  # fmt: skip

# A published table; the view of the same name shows it for as long as its item is published.
TABLE = re.compile(r"geo://([a-z_][a-z0-9_]{0,62})")
ADDRESS = re.compile(r"(?:bronze|silver|gold)://\S+")
# A file name may have spaces, and an href is never prose.
HREF = re.compile(r"(?:bronze|silver|gold)://.+", re.DOTALL)
TEXTS = frozenset({"title", "description"})
GONE = object()
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


def path_of(file: PublishedFile) -> str:
    """The path of a file below the API's root; it never leads to other bytes."""
    return f"/files/p/{file.publication}/{quote(file.name)}"


def address_of(value: object, key: str = "href") -> str | None:
    """The value of a document's key, if it is an address and not prose."""
    if not isinstance(value, str) or key in TEXTS:
        return None
    return value if (HREF if key == "href" else ADDRESS).fullmatch(value) else None


def table_of(href: object) -> str | None:
    """The table that an asset's address names."""
    found = TABLE.fullmatch(href) if isinstance(href, str) else None
    return found[1] if found else None


def mark_in_place(item: Item, files: Mapping[str, PublishedFile]) -> Item:
    """The item, with those of its assets marked as not drawn whose files others may replace."""
    assets = item.get("assets")
    if not isinstance(assets, dict):
        return item
    return {**item, "assets": {name: _mark_asset(asset, files) for name, asset in assets.items()}}


def _mark_asset(asset: Any, files: Mapping[str, PublishedFile]) -> Any:  # as other programs may write it
    file = files.get(address_of(asset.get("href")) or "") if isinstance(asset, dict) else None
    return {**asset, DRAWN: False} if file and file.version else asset


def find_addresses(document: object, key: str = "") -> Iterator[str]:
    """Every address in a document; `key` is the one that it has in its parent."""
    if isinstance(document, dict):
        for name, part in document.items():
            yield from find_addresses(part, name)
    elif isinstance(document, list | tuple):
        for part in document:
            yield from find_addresses(part, key)
    elif address := address_of(document, key):
        yield address


def name_files(document: Any, files: Mapping[str, PublishedFile], root: str, key: str = "") -> Any:  # JSON in, JSON out
    """The document with file URLs in place of addresses; unpublished files are removed, with their asset or link.

    `root` is the URL of this API as the caller sees it; `key` is the one that the document has in its parent.
    """
    if isinstance(document, dict):
        if address_of(document.get("href")) and document["href"] not in files:
            return GONE
        if table := table_of(document.get("href")):
            document = {**document, "href": f"{root}/features/collections/{table}/items"}
        named = {name: name_files(part, files, root, name) for name, part in document.items()}
        return {name: part for name, part in named.items() if part is not GONE}
    if isinstance(document, list | tuple):
        return [part for part in (name_files(part, files, root, key) for part in document) if part is not GONE]
    if address := address_of(document, key):
        return root + path_of(files[address]) if address in files else GONE
    return document
