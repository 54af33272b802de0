"""What we use of a GDAL .aux.xml file, read by a bounded parser: neither statistics nor the files that it names."""

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

__all__ = ["AuxBand", "AuxMetadata", "read_aux"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_ELEMENTS = 20_000
MAX_BANDS = 1_000
MAX_TEXT_CHARS = 16_384
# Elements that say nothing of the raster that readers need.
_IGNORED = {"PAMDataset", "PAMRasterBand", "Metadata", "MDI", "Histograms", "HistItem", "HistMin", "HistMax"}
_IGNORED |= {"BucketCount", "IncludeOutOfRange", "Approximate", "HistCounts", "Overview", "GDALRasterAttributeTable"}
_USED = {"SRS", "GeoTransform", "Description", "UnitType", "NoDataValue", "Scale", "Offset"}


@dataclass
class AuxBand:
    """What the file says of one band, as text."""

    values: dict[str, str] = field(default_factory=dict)


@dataclass
class AuxMetadata:
    """What the file says of the raster, as text, of its bands by their numbers, and elements that are not used."""

    values: dict[str, str] = field(default_factory=dict)
    bands: dict[int, AuxBand] = field(default_factory=dict)
    unused: set[str] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it that is used."""
        return not self.values and not any(band.values for band in self.bands.values())


def read_aux(path: Path) -> AuxMetadata:
    """Read the file; ValueError says why it can't be read."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"it is not XML: {error}") from error
    return reader.found


class _Reader:
    """Collects the texts of used elements; no entity, no document type, bounded depth and number."""

    def __init__(self) -> None:
        self.found = AuxMetadata()
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._read
        self._path: list[str] = []
        self._text = ""
        self._band: int | None = None
        self._count = 0

    def _refuse(self, *_: object) -> None:
        raise ValueError("it declares a document type, which is not allowed")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        self._path.append(name)
        if self._count > MAX_ELEMENTS or len(self._path) > MAX_DEPTH:
            raise ValueError("it has too many elements, or too deep ones")
        self._text = ""
        if name == "PAMRasterBand":
            number = attributes.get("band", "")
            self._band = int(number) if number.isascii() and number.isdigit() and len(number) < 6 else None
        elif len(self._path) <= 3 and name not in _IGNORED | _USED:
            self.found.unused.add(name[:40])

    def _read(self, text: str) -> None:
        self._text = (self._text + text)[:MAX_TEXT_CHARS]

    def _end(self, name: str) -> None:
        at = self._path[:-1]
        if name in _USED and at == ["PAMDataset"]:
            self.found.values[name] = self._text.strip()
        elif name in _USED and at == ["PAMDataset", "PAMRasterBand"] and self._band and self._band <= MAX_BANDS:
            self.found.bands.setdefault(self._band, AuxBand()).values[name] = self._text.strip()
        self._path.pop()
        self._text = ""
