"""Checks JSON files before GDAL sees them: valid, GeoJSON, not too deep; in one pass of bounded memory."""

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Literal, NoReturn

from pydantic_core import from_json

from anabranch.errors import Permanent
from anabranch.garbage_collection import without_collector
from anabranch.plugins.vector.reading.exact.decimals import has_inexact, parse_exactly
from anabranch.plugins.vector.reading.json.blocks import Block, follows_features, locate, read_blocks
from anabranch.plugins.vector.reading.json.columns import Feature, PropertyFacts
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.redaction import show_text

__all__ = [
    "JsonFacts",
    "JsonKind",
    "max_document_bytes",
    "read_features",
    "require_properties",
    "require_readable_whole",
    "scan_json",
]

MB = 2**20
MAX_DEPTH = 32
# GDAL holds some 14 bytes for each byte of a value that it reads whole.
DOCUMENT_DIVISOR = 24
SPACE = b" \t\r\n"
_NUL = b"\\u0000"
_WHERE = re.compile(r" at line (\d+) column (\d+)$")
_GEOMETRIES = frozenset(
    {"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection"}
)
JsonKind = Literal["collection", "document", "sequence", "topology"]


@dataclass
class JsonFacts:
    """What a scan finds: the kind of file, its members beside the features, and what their properties are."""

    kind: JsonKind = "document"
    features: int = 0
    members: dict[str, object] = field(default_factory=dict)
    properties: PropertyFacts = field(default_factory=PropertyFacts)
    null_geometries: "array[int]" = field(default_factory=lambda: array("L"))  # the numbers of features


def max_document_bytes(settings: VectorSettings) -> int:
    """How large a feature, or a file that is read whole, may be."""
    return settings.vector_memory_mb * MB // DOCUMENT_DIVISOR


def require_readable_whole(paths: Iterable[Path], name: str, form: str, settings: VectorSettings) -> None:
    """Refuse files that together are too large for a format that must be read whole."""
    most = max_document_bytes(settings)
    if sum(path.stat().st_size for path in paths) > most:
        raise Permanent(
            f"{name} is {form} of more than {most // MB} MB, and {form} must be read whole",
            code="vector.too_large",
            remedy=f"Convert it: `ogr2ogr out.gpkg {name}`.",
        )


def require_properties(file: str, feature: Feature, number: int) -> None:
    """Refuse a feature whose properties are neither an object nor null."""
    if not isinstance(feature.get("properties"), (dict, NoneType)):
        raise Permanent(
            f"{file} has properties that are no JSON object, in feature number {number:,}",
            code="vector.geojson",
            remedy="Write the properties of each feature as a JSON object, or as null.",
        )


def scan_json(path: Path, settings: VectorSettings) -> JsonFacts:
    """Scan a file; refused where it is neither GeoJSON nor TopoJSON."""
    with without_collector():
        return _Scan(path, settings).run()


def read_features(path: Path, settings: VectorSettings) -> Iterator[Feature]:
    """The features of a file that was scanned."""
    scan = _Reading(path, settings)
    for block in read_blocks(path):
        with without_collector():
            scan.take(block)
        yield from scan.forget()
    scan.finish()
    yield from scan.forget()


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
        self._types = 0  # how many there were when they were last counted

    def run(self) -> JsonFacts:
        for block in read_blocks(self._path):
            self.take(block)
        return self.finish()

    def take(self, block: Block) -> None:
        if len(block.depths) and block.depths.max() > MAX_DEPTH:
            self._fail_deep(block)
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
            if block.data[place : place + 1] == b"[" and follows_features(self._pending, shift + place):
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
            require_properties(self._path.name, feature, facts.features)
            if _is_null(feature.get("geometry")):
                facts.null_geometries.append(facts.features)
            facts.properties.add(feature)
            self._check_columns()

    def _check_columns(self) -> None:
        types, most = self._facts.properties.types, self._settings.vector_max_columns
        if len(types) <= max(most, self._types):
            return
        self._types = len(types)
        if len(self._facts.properties.names) > most:
            raise Permanent(
                f"{self._path.name} has more than {most:,} properties",
                code="vector.columns",
                remedy="Remove columns, or nest those that belong together.",
            )

    def finish(self) -> JsonFacts:
        facts = self._facts
        if any("\0" in name for name in facts.properties.names):
            self._refuse("has a property whose name has a NUL character (\\u0000)")
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
        self._facts.properties.may_have_nuls |= _NUL in tail
        value, reason, place = _parse(head + (b"]" if head else b"") + tail)
        if reason:
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
            self._facts.features = 1
        else:
            given = "it has no type" if kind is None else f"its type is {show_text(str(kind))!r}"
            self._refuse(f"is valid JSON, but not GeoJSON: {given}")

    def _parse(self, text: bytes, offset: int) -> object:
        self._facts.properties.may_have_nuls |= _NUL in text
        value, reason, place = _parse(text)
        if reason:
            self._fail(reason, offset + place)
        return value

    def _fail(self, reason: str, offset: int) -> NoReturn:
        raise Permanent(
            f"{self._path.name} is not valid JSON: {reason}, at {locate(self._path, offset)}",
            code="vector.json",
            remedy="Write the file again, or upload it again if it was cut off.",
        )

    def _fail_deep(self, block: Block) -> NoReturn:
        place = int(block.brackets[block.depths > MAX_DEPTH][0])
        self._fail(f"values are nested over {MAX_DEPTH} deep", block.offset + place)

    def _refuse(self, what: str) -> NoReturn:
        raise Permanent(
            f"{self._path.name} {what}",
            code="vector.geojson",
            remedy="Send a GeoJSON FeatureCollection, a feature in each line, or TopoJSON.",
        )


class _Reading(_Scan):
    """Another scan, for the features themselves."""

    def __init__(self, path: Path, settings: VectorSettings) -> None:
        super().__init__(path, settings)
        self._features: list[Feature] = []

    def forget(self) -> list[Feature]:
        """The features since the last time."""
        found, self._features = self._features, []
        return found

    def _note(self, features: object) -> None:
        if isinstance(features, list):
            self._facts.features += len(features)
            self._features += features


def _is_null(geometry: object) -> bool:
    """Whether a geometry is null, or has no coordinates, which RFC 7946 takes for the same."""
    return geometry is None or (isinstance(geometry, dict) and geometry.get("coordinates") == [])


def _parse(text: bytes) -> tuple[object, str, int]:
    """A value; or what is wrong with its text, and the offset of the place."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        return None, *_split_error(str(error), text)
    return parse_exactly(text) if has_inexact(text) else value, "", 0


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
