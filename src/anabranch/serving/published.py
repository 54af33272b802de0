"""Published files, and the URLs that readers see in place of storage addresses."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from anabranch.adapters.postgres.store.files import PublishedFile, StoredFile, in_place

__all__ = ["Published", "address_of", "find_addresses", "find_file", "name_files", "path_of"]

ADDRESS = re.compile(r"(?:bronze|silver|gold)://\S+")
# A file name may have spaces, and an href is never prose.
HREF = re.compile(r"(?:bronze|silver|gold)://.+", re.DOTALL)
TEXTS = frozenset({"title", "description"})
GONE = object()


class Published(Protocol):
    """Finds published files; others are not found."""

    async def find(self, publication: str, name: str) -> PublishedFile | None:
        """The file of a publication under this name; Gone if it was withdrawn or is no longer kept."""

    async def find_current(self, collection: str, item: str, name: str) -> PublishedFile | None:
        """The file that an item shows now under this name; Gone if the item was withdrawn."""

    async def find_draft(self, job: int, name: str) -> StoredFile | None:
        """A file that a job made and may publish under this name."""

    async def find_all(self, addresses: Collection[str]) -> Mapping[str, PublishedFile]:
        """The published files among these addresses, by address; those in place by their item, too."""


def path_of(file: PublishedFile) -> str:
    """The path of a file below the API's root; it never leads to other bytes."""
    return f"/files/p/{file.publication}/{quote(file.name)}"


def address_of(value: object, key: str = "href") -> str | None:
    """The value of a document's key, if it is an address and not prose."""
    if not isinstance(value, str) or key in TEXTS:
        return None
    return value if (HREF if key == "href" else ADDRESS).fullmatch(value) else None


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


def name_files(
    document: Any,  # JSON in, JSON out
    files: Mapping[str, PublishedFile],
    root: str,
    key: str = "",
    item: str = "",
) -> Any:
    """The document with file URLs in place of addresses; unpublished files are removed, with their asset or link.

    `root` is the URL of this API as the caller sees it; `key` is the one that the document has in its parent, and
    `item` the item that it is a part of.
    """
    if isinstance(document, dict):
        if document.get("type") == "Feature":
            item = f"{document.get('collection')}/{document.get('id')}"
        href = address_of(document.get("href"))
        if href and find_file(files, href, item) is None:
            return GONE
        named = {name: name_files(part, files, root, name, item) for name, part in document.items()}
        return {name: part for name, part in named.items() if part is not GONE}
    if isinstance(document, list | tuple):
        return [part for part in (name_files(part, files, root, key, item) for part in document) if part is not GONE]
    if address := address_of(document, key):
        file = find_file(files, address, item)
        return root + path_of(file) if file else GONE
    return document


def find_file(files: Mapping[str, PublishedFile], address: str, item: str) -> PublishedFile | None:
    """The file at an address, as an item like `terrain/dem` shows it."""
    return files.get(in_place(item, address)) or files.get(address)
