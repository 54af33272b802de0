"""Documents between the tasks of an ingest: a line for each, with the file and the line that it comes from."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from anabranch.canonical import Json, JsonObject, encode
from anabranch.errors import AnabranchError

__all__ = ["Place", "Record", "Refused", "read_records", "write_lines"]

SEPARATOR = b"\t"  # JSON that was written by a program, and addresses, have none


@dataclass(frozen=True)
class Place:
    """Where a document comes from."""

    file: str
    sha256: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Record:
    """A document as text, and where it comes from."""

    place: Place
    text: bytes

    def write(self) -> bytes:
        """It as a line of a work file."""
        place = self.place
        head = (place.file.encode(), place.sha256.encode(), str(place.line or "").encode())
        return SEPARATOR.join((*head, self.text)) + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Self:
        """The record of a line of a work file."""
        file, sha256, number, text = line.rstrip(b"\n").split(SEPARATOR, 3)
        return cls(Place(file.decode(), sha256.decode(), int(number) if number else None), text)


@dataclass(frozen=True)
class Refused:
    """A document that is not accepted: where it is, which one, and why."""

    file: str
    line: int | None
    collection: str | None
    id: str | None
    code: str
    reason: str
    remedy: str

    @classmethod
    def of(cls, place: Place, error: AnabranchError, document: Json = None) -> Self:
        """The refusal of a document, whose id and collection are shown where they are text."""
        given = document if isinstance(document, dict) else {}
        item, collection = (
            value[:200] if isinstance(value := given.get(key), str) else None for key in ("id", "collection")
        )
        return cls(place.file, place.line, collection, item, error.code, error.message, error.remedy or "")

    def write(self) -> bytes:
        """It as a line of a report."""
        found: JsonObject = asdict(self)
        return encode({key: value for key, value in found.items() if value is not None}).encode() + b"\n"


def read_records(path: Path) -> Iterator[Record]:
    """The records of a work file."""
    with path.open("rb") as lines:
        yield from map(Record.read, lines)


def write_lines(path: Path, lines: Iterable[bytes]) -> Path:
    """A file with these lines."""
    with path.open("wb") as file:
        file.writelines(lines)
    return path
