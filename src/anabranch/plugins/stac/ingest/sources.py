"""Finds the documents of a source: a file, a folder, or a static catalog whose links are followed."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from anabranch.canonical import Json, encode
from anabranch.errors import AnabranchError, InputError, NotFound
from anabranch.plugins.stac.ingest.documents import parse_document
from anabranch.plugins.stac.ingest.links import find_links
from anabranch.plugins.stac.ingest.records import Place, Record, Refused
from anabranch.plugins.stac.settings import StacSettings
from anabranch.storage.task_storage import TaskStorage

__all__ = ["SourceReader", "folder_of"]

LINES = frozenset({".ndjson", ".jsonl", ".ndgeojson", ".geojsonl", ".geojsons"})
PARQUET = frozenset({".parquet", ".geoparquet"})
SUFFIXES = LINES | PARQUET | {".json", ".geojson"}
PARQUET_MAGIC = b"PAR1"
MAX_DEPTH = 32
READERS = 8
READ_AHEAD_BYTES = 2**20
TOO_LARGE = "ingest.too_large"
Found = Iterator[Record | Refused]


def folder_of(source: str) -> str:
    """The folder of a source, with a slash at its end: nothing outside of it is read."""
    tier, _, path = source.partition("://")
    return f"{tier}://{path.rpartition('/')[0]}".rstrip("/") + "/" if "/" in path else f"{tier}://"


class SourceReader:
    """Reads sources with bounded memory; what is unreadable is refused alone."""

    def __init__(self, storage: TaskStorage, convert: Callable[[Path], Path], settings: StacSettings) -> None:
        """`convert` writes the items of a GeoParquet file as lines of JSON."""
        self._storage = storage
        self._convert = convert
        self._settings = settings

    def read(self, source: str) -> Found:
        """The items and collections of a source, and what could not be read."""
        if source.endswith("/"):
            yield from self._read_folder(source)
        elif PurePosixPath(source).suffix.lower() in LINES | PARQUET or not self._is_document(source):
            yield from self._read_large(source)
        else:
            yield from self._follow(source)

    def _is_document(self, address: str) -> bool:
        """Whether a file is one JSON document that can be read whole, rather than lines or Parquet."""
        head = self._storage.read(address, 0, min(self._storage.stat(address).size, self._item_bytes + 1))
        return not (head.startswith(PARQUET_MAGIC) or _has_lines(head))

    def _read_folder(self, folder: str) -> Found:
        tier = folder.partition("://")[0]
        found = (stat for stat in self._storage.walk(folder) if PurePosixPath(stat.key).suffix.lower() in SUFFIXES)
        number = 0
        for number, stat in enumerate(found, 1):
            self._check_number(number)
            address = f"{tier}://{stat.key}"
            try:
                yield from self._read_file(address)
            except AnabranchError as error:  # it vanished since it was listed, for example
                if error.category != "permanent":
                    raise
                yield Refused.of(Place(address), error)
        if not number:
            raise NotFound(
                "storage.not_found",
                f"there is no file with an extension of STAC below {folder}",
                remedy=f"Give a folder with files like {', '.join(sorted(SUFFIXES))}.",
            )

    def _read_file(self, address: str) -> Found:
        """The documents of a file of a folder, whose links are not followed."""
        if PurePosixPath(address).suffix.lower() in LINES | PARQUET or not self._is_document(address):
            yield from self._read_large(address)
            return
        place, document = self._read_document(address)
        yield from [document] if isinstance(document, Refused) else _list_documents(place, document)

    def _read_large(self, address: str) -> Found:
        """The lines of a file, or the rows of a GeoParquet file."""
        staged = self._storage.stage(address)
        path, place = staged.path, Place(address, staged.sha256)
        with path.open("rb") as file:
            is_parquet = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
        try:
            path = self._convert(path) if is_parquet else path
        except AnabranchError as error:
            if error.category != "permanent":
                raise
            yield Refused.of(place, error)
            return
        with path.open("rb") as file:
            yield from self._read_lines(file, place)

    def _read_lines(self, file: BinaryIO, place: Place) -> Found:
        most, number = self._item_bytes, 0
        while line := file.readline(most + 1):
            number += 1
            here = Place(place.file, place.sha256, number)
            if len(line) > most and not line.endswith(b"\n"):
                while (rest := file.readline(most)) and not rest.endswith(b"\n"):
                    pass
                yield Refused.of(here, _too_large(f"the line has more than {most} bytes"))
            elif text := line.strip().replace(b"\t", b" ").replace(b"\r", b" "):
                yield Record(here, text)

    def _follow(self, root: str) -> Found:
        """The documents that a static catalog leads to, each once."""
        waiting, seen, folder = deque([(root, 0)]), {root}, folder_of(root)
        with ThreadPoolExecutor(READERS) as pool:
            while waiting:
                window = [waiting.popleft() for _ in range(min(READERS, len(waiting)))]
                ahead = pool.map(self._read_ahead, (address for address, _ in window))
                for (address, depth), (place, document) in zip(window, ahead, strict=True):
                    if isinstance(document, Refused) and document.code == TOO_LARGE:  # only one of these at a time
                        place, document = self._read_document(address)
                    if isinstance(document, Refused):
                        yield document
                        continue
                    yield from _list_documents(place, document)
                    for target in find_links(document, place, folder):
                        if isinstance(target, Refused):
                            yield target
                        elif target not in seen and depth < MAX_DEPTH:
                            self._check_number(len(seen))
                            seen.add(target)
                            waiting.append((target, depth + 1))
                        elif target not in seen:
                            what = f"{target} is more than {MAX_DEPTH} links away from {root}"
                            yield Refused.of(place, InputError("ingest.link", what, remedy="Ingest it by itself."))

    def _read_ahead(self, address: str) -> "tuple[Place, Json | Refused]":
        """A document that is small enough to wait for its turn in memory."""
        return self._read_document(address, READ_AHEAD_BYTES)

    def _read_document(self, address: str, most: int | None = None) -> "tuple[Place, Json | Refused]":
        """A document, or why it can't be read; a store that does not answer fails the task."""
        place, limit = Place(address), self._settings.stac_document_mb * 2**20
        limit = limit if most is None else min(limit, most)
        try:
            size = self._storage.stat(address).size
            if size > limit:
                raise _too_large(f"the document has {size} bytes; at most {limit} are read whole")
            text = self._storage.read(address, 0, size)
            place = Place(address, hashlib.sha256(text).hexdigest())
            return place, parse_document(text)
        except AnabranchError as error:
            if error.category != "permanent":
                raise
            return place, Refused.of(place, error)

    def _check_number(self, number: int) -> None:
        if number > (most := self._settings.stac_max_documents):
            what = f"the source has more than {most} documents"
            raise InputError("ingest.too_many", what, remedy="Ingest parts of it, or raise `stac_max_documents`.")

    @property
    def _item_bytes(self) -> int:
        return self._settings.stac_item_kb * 1024


def _too_large(what: str) -> InputError:
    remedy = "Convert it to NDJSON, one item a line; or raise `stac_document_mb` or `stac_item_kb`."
    return InputError(TOO_LARGE, what, remedy=remedy)


def _has_lines(head: bytes) -> bool:
    """Whether a file begins with a line that is a whole JSON object, and goes on after it."""
    first, _, rest = head.lstrip().partition(b"\n")
    if not (first.startswith(b"{") and rest.strip()):
        return False
    try:
        return isinstance(parse_document(first), dict)
    except InputError:
        return False


def _list_documents(place: Place, document: Json) -> Found:
    """The items and collections in a document; a catalog has none but by its links."""
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "Catalog":
        return
    parts: Sequence[Json] = [document]
    if isinstance(document, list):
        parts = document
    elif isinstance(document, dict):
        for key in ("features", "collections"):
            if kind not in ("Feature", "Collection") and isinstance(listed := document.get(key), list):
                parts = listed
    for part in parts:
        yield Record(place, encode(part).encode())
