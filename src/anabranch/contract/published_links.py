"""The URLs that readers see in a document in place of addresses of storage and of published tables."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

__all__ = ["FileOfPublication", "address_of", "find_addresses", "name_files", "path_of", "table_of"]

# A published table; the view of the same name shows it for as long as its item is published.
TABLE = re.compile(r"geo://([a-z_][a-z0-9_]{0,62})")
ADDRESS = re.compile(r"(?:bronze|silver|gold)://\S+")
# A file name may have spaces, and an href is never prose.
HREF = re.compile(r"(?:bronze|silver|gold)://.+", re.DOTALL)
TEXTS = frozenset({"title", "description"})
GONE = object()


class FileOfPublication(Protocol):
    """A file that a publication shows under a name."""

    @property
    def publication(self) -> str:
        """The id of the publication."""

    @property
    def name(self) -> str:
        """The name that readers fetch it by."""


def path_of(file: FileOfPublication) -> str:
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
    document: Any, files: Mapping[str, FileOfPublication], root: str, key: str = ""
) -> Any:  # JSON in, JSON out
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
