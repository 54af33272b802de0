"""Composes tiles into one raster in memory: a VRT of the whole grid that refers to some of its tiles."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import rasterio
from affine import Affine
from rasterio.enums import ColorInterp, MaskFlags

from anabranch.contract.mosaic import Grid, Window

__all__ = ["Part", "compose"]

TYPES = {
    "uint8": "Byte", "int8": "Int8", "uint16": "UInt16", "int16": "Int16", "uint32": "UInt32", "int32": "Int32",
    "uint64": "UInt64", "int64": "Int64", "float32": "Float32", "float64": "Float64",
}  # fmt: skip
COLORS = {ColorInterp.grey: "Gray", ColorInterp.undefined: "Undefined"}


@dataclass(frozen=True)
class Part:
    """A tile that is open, and its window of the grid."""

    dataset: Any  # rasterio's, which has no types
    window: Window


@dataclass(frozen=True)
class _Level:
    """One resolution of the mosaic: its files side by side, each opened at one of its overviews."""

    factor: int
    overview: int | None  # of the files; None is their full resolution
    parts: Sequence[Part]


@contextmanager
def compose(grid: Grid, whole: Any, parts: Sequence[Part]) -> Iterator[Any]:  # datasets of rasterio
    """A dataset of the whole grid with the pixels and overviews of some tiles, and with the overviews of `whole`.

    `whole` is the overview COG: it has the bands' metadata, and stands for all levels below those of the tiles. Where
    the other tiles are, there is no data: only what the given ones cover may be read at their resolution.
    """
    entire = [Part(whole, Window(column=0, row=0, width=grid.width, height=grid.height))]
    below = [_Level(grid.factor * 2 ** (number + 1), number, entire) for number in range(len(whole.overviews(1)))]
    tiled = [_Level(2**number, number - 1, parts) for number in range(1, grid.overviews)]
    levels = [*tiled, _Level(grid.factor, None, entire), *below]
    with ExitStack() as stack:
        names = [
            stack.enter_context(rasterio.MemoryFile(_write(grid, whole, level, ()), ext=".vrt")).name
            for level in levels
            if level.factor > 1
        ]
        text = _write(grid, whole, _Level(1, None, parts), names)
        file = stack.enter_context(rasterio.MemoryFile(text, ext=".vrt"))
        yield stack.enter_context(rasterio.open(file.name, driver="VRT"))


def _write(grid: Grid, whole: Any, level: _Level, overviews: Sequence[str]) -> bytes:
    height, width = _shrink(grid.height, level.factor), _shrink(grid.width, level.factor)
    root = Element("VRTDataset", rasterXSize=str(width), rasterYSize=str(height))
    SubElement(root, "SRS", dataAxisToSRSAxisMapping=_axes(whole)).text = whole.crs.to_wkt()
    place = Affine(*grid.transform) * Affine.scale(grid.width / width, grid.height / height)
    SubElement(root, "GeoTransform").text = ", ".join(map(repr, place.to_gdal()))
    _add_tags(root, whole.tags())
    for band in whole.indexes:
        element = _add_band(root, whole, band)
        _add_sources(element, level, str(band), overviews, whole)
    if MaskFlags.per_dataset in whole.mask_flag_enums[0] and MaskFlags.alpha not in whole.mask_flag_enums[0]:
        mask = SubElement(SubElement(root, "MaskBand"), "VRTRasterBand", dataType="Byte")
        _add_sources(mask, level, "mask,1", overviews, whole)
    return tostring(root)


def _axes(whole: Any) -> str:
    return "2,1" if whole.crs.is_geographic else "1,2"  # x first, whatever the authority says


def _add_band(root: Element, whole: Any, band: int) -> Element:
    at = band - 1
    element = SubElement(root, "VRTRasterBand", dataType=TYPES[whole.dtypes[at]], band=str(band))
    _add_tags(element, whole.tags(band))
    if whole.descriptions[at]:
        SubElement(element, "Description").text = whole.descriptions[at]
    if whole.units[at]:
        SubElement(element, "UnitType").text = whole.units[at]
    if whole.nodatavals[at] is not None:
        SubElement(element, "NoDataValue").text = repr(whole.nodatavals[at])
    SubElement(element, "Offset").text = repr(float(whole.offsets[at]))
    SubElement(element, "Scale").text = repr(float(whole.scales[at]))
    color = whole.colorinterp[at]
    SubElement(element, "ColorInterp").text = COLORS.get(color, color.name.capitalize())
    if color is ColorInterp.palette:
        table = SubElement(element, "ColorTable")
        entries = whole.colormap(band)
        for value in range(max(entries) + 1):
            colors = zip(("c1", "c2", "c3", "c4"), entries.get(value, (0, 0, 0, 0)), strict=True)
            SubElement(table, "Entry", {name: str(part) for name, part in colors})
    return element


def _add_tags(element: Element, tags: dict[str, str]) -> None:
    if tags:
        kept = SubElement(element, "Metadata")
        for key, value in tags.items():
            SubElement(kept, "MDI", key=key).text = value


def _add_sources(element: Element, level: _Level, band: str, overviews: Sequence[str], whole: Any) -> None:
    for part in level.parts:
        source = SubElement(element, "SimpleSource")
        SubElement(source, "SourceFilename", relativeToVRT="0", shared="0").text = part.dataset.name
        if level.overview is not None:
            SubElement(SubElement(source, "OpenOptions"), "OOI", key="OVERVIEW_LEVEL").text = str(level.overview)
        SubElement(source, "SourceBand").text = band
        own = 1 if level.overview is None else 2 ** (level.overview + 1)
        width, height = _shrink(part.dataset.width, own), _shrink(part.dataset.height, own)
        rows, columns = whole.block_shapes[0]
        SubElement(
            source, "SourceProperties", RasterXSize=str(width), RasterYSize=str(height),
            DataType=element.get("dataType", "Byte"), BlockXSize=str(columns), BlockYSize=str(rows),
        )  # fmt: skip
        size = {"xSize": str(width), "ySize": str(height)}
        SubElement(source, "SrcRect", {"xOff": "0", "yOff": "0", **size})
        at = part.window.column // level.factor, part.window.row // level.factor
        SubElement(source, "DstRect", {"xOff": str(at[0]), "yOff": str(at[1]), **size})
    for name in overviews:
        smaller = SubElement(element, "Overview")
        SubElement(smaller, "SourceFilename", relativeToVRT="0").text = name
        SubElement(smaller, "SourceBand").text = band


def _shrink(size: int, factor: int) -> int:
    """As GDAL rounds the size of an overview of an overview."""
    return -(-size // factor)
