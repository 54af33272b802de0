"""Checks JSON files before GDAL sees them: valid, GeoJSON, not too deep; in one pass of bounded memory."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from pydantic_core import from_json

from anabranch.errors import Permanent
from anabranch.garbage_collection import without_collector
from anabranch.plugins.vector.reading.json_blocks import Block, locate, read_blocks
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text

__all__ = ["JsonFacts", "JsonKind", "max_document_bytes", "require_readable_whole", "scan_json"]

MB = 2**20
MAX_DEPTH = 32
# GDAL holds some 14 bytes for each byte of a value that it reads whole.
DOCUMENT_DIVISOR = 24
SPACE = b" \t\r\n"
EXACT = 2**53
_FEATURES = re.compile(rb'"features"\s*:\s*\Z')
_WHERE = re.compile(r" at line (\d+) column (\d+)$")
_GEOMETRIES = frozenset(
    {"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection"}
)
JsonKind = Literal["collection", "document", "sequence", "topology"]


@dataclass
class JsonFacts:
    """What a scan finds: the kind of file, its members beside the features, and of which types properties are."""

    kind: JsonKind = "document"
    features: int = 0
    members: dict[str, object] = field(default_factory=dict)
    types: set[tuple[str, type]] = field(default_factory=set)
    inexact: set[str] = field(default_factory=set)  # whole numbers that floating point can't hold
    too_large: set[str] = field(default_factory=set)  # nor 64 bits
    ids: bool = True  # each feature has a number as its id, and they rise
    last_id: int = -1

    @property
    def names(self) -> set[str]:
        """The names of the properties."""
        return {name for name, _ in self.types}


def max_document_bytes(settings: VectorSettings) -> int:
    """How large a feature, or a file that is read whole, may be."""
    return settings.vector_memory_mb * MB // DOCUMENT_DIVISOR


def require_readable_whole(path: Path, form: str, settings: VectorSettings) -> None:
    """Refuse a file that is too large for a format that must be read whole."""
    most = max_document_bytes(settings)
    if path.stat().st_size > most:
        raise Permanent(
            f"{path.name} is {form} of more than {most // MB} MB, and {form} must be read whole",
            code="vector.too_large",
            remedy=f"Convert it: `ogr2ogr out.gpkg {path.name}`.",
        )


def scan_json(path: Path, settings: VectorSettings) -> JsonFacts:
    """Scan a file; refused where it is neither GeoJSON nor TopoJSON."""
    with without_collector():
        return _Scan(path, settings).run()


class _Scan:
    """The scan of one file: `_pending` are the bytes from `_start` on that are not parsed yet."""

    def __init__(self, path: Path, settings: VectorSettings) -> None:
        self._path = path
        self._settings = settings
        self._limit = max_document_bytes(settings)
        self._facts = JsonFacts()
        self._pending = bytearray()
        self._start = 0
        self._level: int | None = None  # the depth at which features end, once known
        self._ends: list[int] = []  # where values end, until it is known whether they are a sequence
        self._opened = 0  # where the bracket of the list of features is
        self._head = b""
        self._done = False  # the list of features has ended

    def run(self) -> JsonFacts:
        for block in read_blocks(self._path):
            if b"\\u0000" in block.data:
                self._fail_nul(block)
            if len(block.depths) and block.depths.max() > MAX_DEPTH:
                self._fail_deep(block)
            self._take(block)
        return self._finish()

    def _take(self, block: Block) -> None:
        at = block.offset
        self._pending += block.data
        if self._level is None:
            self._find_level(block)
        if self._level is not None and not self._done:
            self._take_features(block, at)
        if len(self._pending) > self._limit:
            inside = self._level is not None and not self._done
            what = "has a feature" if inside else "is one value, or has members beside its features,"
            raise Permanent(
                f"{self._path.name} {what} larger than {self._limit // MB} MB, from {locate(self._path, self._start)}",
                code="vector.too_large",
                remedy="Write it as a FeatureCollection with smaller features, or as a GeoPackage: "
                f"`ogr2ogr out.gpkg {self._path.name}`.",
            )

    def _find_level(self, block: Block) -> None:
        """Find the list of features of a collection, or the end of the first value of a sequence."""
        first = bytes(self._pending[:64]).removeprefix(b"\xef\xbb\xbf").lstrip(SPACE + b"\x1e")[:1]
        if first == b"[":
            self._refuse("is a list at its top level, not a GeoJSON object")
        shift = block.offset - self._start
        for place in block.brackets[block.depths == 2].tolist():
            if block.data[place : place + 1] == b"[" and _FEATURES.search(self._pending, 0, shift + place):
                return self._begin_features(shift + place)
        self._ends += [shift + int(end) + 1 for end in block.brackets[block.depths == 0]]
        if self._ends and self._pending[self._ends[0] :].strip(SPACE):
            self._facts.kind, self._level = "sequence", 0
        return None

    def _begin_features(self, place: int) -> None:
        self._facts.kind, self._level = "collection", 2
        self._head = bytes(self._pending[:place]) + b"["
        self._forward(place)
        self._opened = self._start

    def _take_features(self, block: Block, at: int) -> None:
        shift = at - self._start
        if self._level == 0:
            ends = self._ends or [shift + int(end) + 1 for end in block.brackets[block.depths == 0]]
            self._ends = []
            if ends:
                self._take_sequence(ends)
            return
        after = block.brackets + block.offset > self._opened
        closed = block.brackets[after & (block.depths < 2)]
        if len(closed):
            self._take_list(shift + int(closed[0]) + 1, last=True)
            self._done = True
            return
        ends = block.brackets[after & (block.depths == 2)]
        if len(ends):
            self._take_list(shift + int(ends[-1]) + 1, last=False)

    def _take_list(self, end: int, *, last: bool) -> None:
        """Parse features of a list; their text begins with the bracket of the list, or the comma before them."""
        text = bytes(self._pending[:end])
        lead = len(text) - len(text.lstrip(SPACE))
        comma = text[lead : lead + 1] == b","
        if comma:
            text = text[:lead] + b"[" + text[lead + 1 :]
        elif self._facts.features and text[lead : lead + 1] != b"]":
            self._fail("expected `,` or `]`", self._start + lead)
        elif self._facts.features:
            text = text[:lead] + b"[" + text[lead:]
        features = self._parse(text if last else text + b"]", self._start)
        if comma and not features:
            self._fail("trailing comma", self._start + lead)
        self._note(features)
        self._forward(end)

    def _take_sequence(self, ends: list[int]) -> None:
        begin = 0
        for end in ends:
            text = bytes(self._pending[begin:end])
            value = text.removeprefix(b"\xef\xbb\xbf").lstrip(SPACE + b"\x1e")
            self._note([self._parse(value, self._start + end - len(value))])
            begin = end
        self._forward(ends[-1])

    def _forward(self, count: int) -> None:
        del self._pending[:count]
        self._start += count

    def _note(self, features: object) -> None:
        facts = self._facts
        for feature in features if isinstance(features, list) else []:
            facts.features += 1
            if not isinstance(feature, dict) or feature.get("type") != "Feature":
                found = feature.get("type") if isinstance(feature, dict) else feature
                self._refuse(f"has a value that is no feature, as number {facts.features:,} ({show_text(str(found))})")
            number = feature.get("id")
            facts.ids = facts.ids and type(number) is int and number > facts.last_id
            facts.last_id = int(number) if facts.ids and number is not None else -1
            self._note_properties(feature.get("properties"))

    def _note_properties(self, properties: object) -> None:
        if not isinstance(properties, dict):
            return
        types = self._facts.types
        for name, value in properties.items():
            kind = value.__class__
            types.add((name, kind))
            if kind is int and not -EXACT < value < EXACT:
                self._facts.inexact.add(name)
                if not -(2**63) <= value < 2**63:
                    self._facts.too_large.add(name)
        if (
            len(types) > self._settings.vector_max_columns
            and len(self._facts.names) > self._settings.vector_max_columns
        ):
            raise Permanent(
                f"{self._path.name} has more than {self._settings.vector_max_columns:,} properties",
                code="vector.columns",
                remedy="Remove columns, or nest those that belong together.",
            )

    def _finish(self) -> JsonFacts:
        facts = self._facts
        if facts.kind == "sequence":
            if rest := bytes(self._pending).strip(SPACE + b"\x1e"):
                self._parse(rest, self._start + self._pending.index(rest))
                self._refuse("has a value that is no feature at its end")
            return facts
        if facts.kind == "collection" and not self._done:
            self._fail("the file ends within the list of features", self._start + len(self._pending))
        facts.members = self._parse_members()
        if facts.kind == "document":
            self._check_document(facts.members)
        elif facts.members.get("type") != "FeatureCollection":
            self._refuse(f"has features, but its type is {facts.members.get('type')!r}, not FeatureCollection")
        return facts

    def _parse_members(self) -> dict[str, object]:
        """The file without its features; where that is invalid, the place is one in the whole file."""
        head = self._head.removeprefix(b"\xef\xbb\xbf")
        mark = len(self._head) - len(head)
        tail = bytes(self._pending)
        if not self._head:
            mark = 3 if tail.startswith(b"\xef\xbb\xbf") else 0
            tail = tail[mark:]
        try:
            value = from_json(head + (b"]" if head else b"") + tail, allow_inf_nan=False)
        except ValueError as error:
            reason, place = _split_error(str(error), head + (b"]" if head else b"") + tail)
            inside = place < len(head) or not head
            self._fail(reason, mark + place if inside else self._start + place - len(head) - 1)
        if not isinstance(value, dict):
            self._refuse("is no JSON object")
        return value

    def _check_document(self, members: dict[str, object]) -> None:
        kind = members.get("type")
        if kind == "Topology":
            self._facts.kind = "topology"
        elif kind == "Feature":
            self._note([members])
        elif kind == "FeatureCollection":
            self._refuse("is a FeatureCollection without a list of features")
        elif kind in _GEOMETRIES:
            self._facts.features, self._facts.ids = 1, False
        else:
            given = "it has no type" if kind is None else f"its type is {show_text(str(kind))!r}"
            self._refuse(f"is valid JSON, but not GeoJSON: {given}")

    def _parse(self, text: bytes, offset: int) -> object:
        try:
            return from_json(text, allow_inf_nan=False)
        except ValueError as error:
            reason, place = _split_error(str(error), text)
            self._fail(reason, offset + place)

    def _fail(self, reason: str, offset: int) -> NoReturn:
        raise Permanent(
            f"{self._path.name} is not valid JSON: {reason}, at {locate(self._path, offset)}",
            code="vector.json",
            remedy="Write the file again, or upload it again if it was cut off.",
        )

    def _fail_nul(self, block: Block) -> None:
        place = block.data.index(b"\\u0000")
        if (place - len(block.data[:place].rstrip(b"\\"))) % 2 == 0:  # else it is an escaped backslash
            self._fail("it has a NUL character (\\u0000), which no text may have", block.offset + place)

    def _fail_deep(self, block: Block) -> NoReturn:
        place = int(block.brackets[block.depths > MAX_DEPTH][0])
        self._fail(f"values are nested over {MAX_DEPTH} deep", block.offset + place)

    def _refuse(self, what: str) -> NoReturn:
        raise Permanent(
            f"{self._path.name} {what}",
            code="vector.geojson",
            remedy="Send a GeoJSON FeatureCollection, a feature in each line, or TopoJSON.",
        )


def _split_error(message: str, text: bytes) -> tuple[str, int]:
    """What is wrong, and the offset of the place that the parser names by its line and column in bytes."""
    found = _WHERE.search(message)
    if found is None:
        return message, 0
    line, column = int(found[1]), int(found[2])
    start = 0
    for _ in range(line - 1):
        start = text.index(b"\n", start) + 1
    return message[: found.start()], start + max(0, column - 1)
