"""What readers may fetch, and the names under which they see it; they never see an address."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from anabranch.adapters.postgres.store.outputs import Output

__all__ = ["Published", "address_of", "find_addresses", "name_files", "path_of"]

ADDRESS = re.compile(r"(?:bronze|silver|gold)://\S+")
# A file's name may have spaces, and an href is nothing that a person wrote to be read.
HREF = re.compile(r"(?:bronze|silver|gold)://.+", re.DOTALL)
TEXTS = frozenset({"title", "description"})
GONE = object()


class Published(Protocol):
    """Finds files that were published; what was not is not there."""

    async def find(self, job_id: str, name: str) -> Output | None:
        """The file of this name."""

    async def find_draft(self, job: int, name: str) -> Output | None:
        """A file that a job made and may publish under a name."""

    async def find_all(self, addresses: Collection[str]) -> Mapping[str, Output]:
        """Those of these addresses that are published, by address."""


def path_of(file: Output) -> str:
    """Where the API serves a file, below its own root."""
    return f"/files/{quote(file.job_id, safe='')}/{quote(file.name)}"


def address_of(value: object, key: str = "href") -> str | None:
    """The address that the value of a key of a document is, if it is one and no text of a person."""
    if not isinstance(value, str) or key in TEXTS:
        return None
    return value if (HREF if key == "href" else ADDRESS).fullmatch(value) else None


def find_addresses(document: object, key: str = "") -> Iterator[str]:
    """Every address in a document, which stands under a key of another."""
    if isinstance(document, dict):
        for name, part in document.items():
            yield from find_addresses(part, name)
    elif isinstance(document, list | tuple):
        for part in document:
            yield from find_addresses(part, key)
    elif address := address_of(document, key):
        yield address


def name_files(document: Any, files: Mapping[str, Output], root: str, key: str = "") -> Any:  # JSON in, JSON out
    """The document with links to files in place of addresses; what is not published leaves, and its asset or link too.

    `root` is the address by which the caller knows this API; `key` is the one under which the document stands.
    """
    if isinstance(document, dict):
        if address_of(document.get("href")) and document["href"] not in files:
            return GONE
        named = {name: name_files(part, files, root, name) for name, part in document.items()}
        return {name: part for name, part in named.items() if part is not GONE}
    if isinstance(document, list | tuple):
        return [part for part in (name_files(part, files, root, key) for part in document) if part is not GONE]
    if address := address_of(document, key):
        return root + path_of(files[address]) if address in files else GONE
    return document
