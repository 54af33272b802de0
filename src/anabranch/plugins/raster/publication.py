"""Publication of a raster: its objects and the facts of its STAC item."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict

from anabranch.canonical import Json, canonical, sha256
from anabranch.plugins.raster.models import Band, Kind, Notice, Profile, Validated

__all__ = ["COG_TYPE", "Product", "Span", "describe_item", "find_span", "name_item", "slug"]

COG_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
ASSETS = {Profile.ANALYSIS: "data", Profile.VISUALIZATION: "visual", Profile.ARCHIVE: "archive"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_SLUG_CHARS = 60
Facts = Mapping[str, Any]  # as the sandbox returns them


class Product(BaseModel):
    """A published object, with the name that readers fetch it by."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: str
    asset: str
    name: str
    href: str
    media_type: str
    size: int
    sha256: str


class Span(BaseModel):
    """The acquisition time: a moment, or an interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    datetime: str | None = None
    start_datetime: str | None = None
    end_datetime: str | None = None


def slug(text: str) -> str:
    """A text as it may be used in ids and file names."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-_")
    return plain[:MAX_SLUG_CHARS].rstrip("-_") or "raster"


def name_item(name: str, identity: Mapping[str, Json]) -> str:
    """The id of an item: the same file with the same options always has the same id, and no other item has it."""
    return f"{slug(PurePosixPath(name).stem)}-{sha256(canonical(dict(identity)))[:10]}"


def find_span(given: str | None, raster: Validated, modified: datetime) -> tuple[Span, tuple[Notice, ...]]:
    """The acquisition time as given, or from the file or its name; else an interval that ends when it was modified."""
    if given is not None:
        return Span(datetime=given), ()
    if raster.times is not None:
        moments = raster.times.model_dump(mode="json", exclude={"origin"})
        return Span(datetime=moments["moment"], start_datetime=moments["start"], end_datetime=moments["end"]), ()
    notice = Notice(code="raster.no_time", message="The acquisition time is unknown; set `datetime` to give it.")
    return Span(start_datetime=EPOCH.isoformat(), end_datetime=modified.isoformat()), (notice,)


def describe_item(
    item_id: str,
    title: str | None,
    raster: Validated,
    bands: Sequence[Band],
    described: Facts,
    span: Span,
    asset: str = "data",
) -> dict[str, Any]:  # the parameters of the catalog's handlers, without the objects
    """The facts of an item; maps show the given asset."""
    grid = described["projection"]
    return {
        "id": item_id,
        "kind": raster.kind,
        "title": title,
        "crs": grid["code"],
        "projjson": grid["projjson"],
        "shape": grid["shape"],
        "transform": grid["transform"],
        "bounds": grid["bbox"],
        "bands": [_band(band) for band in bands],
        "footprint": described["footprint"],
        "bbox": described["bbox"],
        **span.model_dump(),
        "software": described["software"],
        "renders": _renders(raster, described["shown"], described["stretch"], asset),
    }


def _band(band: Band) -> dict[str, Any]:
    scaled = (band.scale, band.offset) != (1.0, 0.0)
    return {
        "name": band.name or f"b{band.index}",
        "data_type": band.dtype,
        "nodata": band.nodata,
        "unit": band.unit or None,
        "scale": band.scale if scaled else None,
        "offset": band.offset if scaled else None,
        "statistics": band.statistics and band.statistics.model_dump(exclude={"exact"}),
    }


def _renders(raster: Validated, bands: Sequence[int], stretch: Sequence[Sequence[float]], asset: str) -> dict[str, Any]:
    """Render hints: three bands as colours, one band by its palette or a colour ramp."""
    shown: dict[str, Any] = {"assets": [asset], "bidx": list(bands)}
    if stretch:
        shown["rescale"] = [list(limits) for limits in stretch]
    if raster.kind is Kind.CATEGORICAL or raster.discrete:
        shown["resampling"] = "nearest"
    if raster.kind is not Kind.CATEGORICAL and len(stretch) == 1:
        shown["colormap_name"] = "viridis"
    return {"default": shown}
