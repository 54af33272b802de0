"""Checks KML and GML files before GDAL sees them: well-formed, and no document types, which may define entities."""

from collections import Counter
from pathlib import Path
from xml.parsers import expat

from anabranch.errors import Permanent

__all__ = ["scan_xml"]

PIECE_BYTES = 2**20
MAX_DEPTH = 100
MAX_NAMES = 10_000


def scan_xml(path: Path) -> Counter[str]:
    """Count the elements of a file by their local names; refused where it is no XML or has a document type."""
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
    return scan.names


class _Scan:
    """The handlers of one file."""

    def __init__(self, name: str) -> None:
        self.names: Counter[str] = Counter()
        self._name = name
        self._depth = 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self.names[name.rpartition(":")[2]] += 1
        if self._depth > MAX_DEPTH or len(self.names) > MAX_NAMES:
            raise Permanent(
                f"{self._name} nests elements over {MAX_DEPTH} deep, or has over {MAX_NAMES:,} kinds of them, "
                f"at line {self.parser.CurrentLineNumber}",
                code="vector.xml",
                remedy="Write the file again with `ogr2ogr`.",
            )

    def _end(self, name: str) -> None:
        self._depth -= 1

    def _doctype(self, *_: object) -> None:
        raise Permanent(
            f"{self._name} has a document type declaration (DOCTYPE) at line {self.parser.CurrentLineNumber}, "
            "which may define entities",
            code="vector.xml",
            remedy="Remove the declaration; KML and GML need none.",
        )
