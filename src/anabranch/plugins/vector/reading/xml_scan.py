"""Checks KML and GML files before GDAL sees them: well-formed, and no document types, which may define entities."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from anabranch.errors import Permanent

__all__ = ["XmlFacts", "find_links", "scan_xml"]

PIECE_BYTES = 2**20
MAX_DEPTH = 100
MAX_NAMES = 10_000
MAX_LINK_CHARS = 2_000
MEMBER_DEPTH = 2  # of the features of GML: in a member of the root


@dataclass(frozen=True)
class XmlFacts:
    """How many elements a file has of each local name: in all, within which others, and in those below the root."""

    names: Counter[str] = field(default_factory=Counter)
    within: Counter[tuple[str, str]] = field(default_factory=Counter)
    members: Counter[str] = field(default_factory=Counter)


def scan_xml(path: Path) -> XmlFacts:
    """Count the elements of a file; refused where it is no XML or has a document type."""
    scan = _Scan(path.name)
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                scan.parser.Parse(piece, False)
        scan.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise Permanent(
            f"{path.name} is not valid XML: {expat.errors.messages[error.code]}, "
            f"at line {error.lineno}, column {error.offset + 1}",
            code="vector.xml",
            remedy="Upload it again; open it in an XML editor to find the mistake.",
        ) from error
    return scan.facts


def find_links(path: Path) -> list[str]:
    """What the network links of a KML file name."""
    links: list[str] = []
    opened: list[str] = []

    def start(name: str, _: dict[str, str]) -> None:
        opened.append(name.rpartition(":")[2])
        if len(opened) > MAX_DEPTH:
            raise _Refused
        if opened[-1] == "href" and "NetworkLink" in opened and len(links) < MAX_NAMES:
            links.append("")

    def add_text(text: str) -> None:
        if opened and opened[-1] == "href" and "NetworkLink" in opened and len(links[-1]) < MAX_LINK_CHARS:
            links[-1] += text

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.CharacterDataHandler = start, add_text
    parser.EndElementHandler = lambda _: opened.pop()
    parser.StartDoctypeDeclHandler = _stop
    with suppress(expat.ExpatError, _Refused), path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            parser.Parse(piece, False)
    return [link.strip() for link in links]


class _Refused(Exception):
    """The file has a document type, or elements that are too deep: it is refused where it is scanned."""


def _stop(*_: object) -> None:
    raise _Refused


class _Scan:
    """The handlers of one file."""

    def __init__(self, name: str) -> None:
        self.facts = XmlFacts()
        self._name = name
        self._open: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        self.facts.names[local] += 1
        self.facts.within[self._open[-1] if self._open else "", local] += 1
        if len(self._open) == MEMBER_DEPTH:
            self.facts.members[local] += 1
        self._open.append(local)
        if len(self._open) > MAX_DEPTH or len(self.facts.within) > MAX_NAMES:
            raise Permanent(
                f"{self._name} nests elements over {MAX_DEPTH} deep, or has over {MAX_NAMES:,} kinds of them, "
                f"at line {self.parser.CurrentLineNumber}",
                code="vector.xml",
                remedy="Write the file again with `ogr2ogr`.",
            )

    def _end(self, name: str) -> None:
        self._open.pop()

    def _doctype(self, *_: object) -> None:
        raise Permanent(
            f"{self._name} has a document type declaration (DOCTYPE) at line {self.parser.CurrentLineNumber}, "
            "which may define entities",
            code="vector.xml",
            remedy="Remove the declaration; KML and GML need none.",
        )
