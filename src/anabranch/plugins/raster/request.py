"""A caller's request for a raster: what is wrong in it is known before the job exists."""

import re
from datetime import UTC, date, datetime
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from anabranch.geo.crs_codes import check_crs
from anabranch.geo.sidecar_names import find_kind, sidecar_names
from anabranch.plugins.raster.files.magic_bytes import SUFFIXES, how_to_convert
from anabranch.plugins.raster.models import Kind, ProfileName, ValidateOptions
from anabranch.plugins.stac.names import MAX_ITEM_ID_CHARS, require_collection_id, require_item_id
from anabranch.strict_model import StrictModel

__all__ = ["NamedSource", "PublishOptions", "RasterRequest", "Tiling"]

Tiling = Literal["auto", "never", "always"]
MAX_VERSIONS = 16
TILE_SUFFIX_CHARS = len("_r999_c999")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class PublishOptions(ValidateOptions):
    """How rasters are to be published; `datetime` becomes the moment in UTC."""

    collection: str
    datetime: str | None = None

    _check_crs = field_validator("input_crs", "target_crs")(check_crs)

    @field_validator("profile")
    @classmethod
    def _check_profile(cls, profile: ProfileName, info: ValidationInfo) -> ProfileName:
        kind = info.data.get("raster_type")
        if profile == "visualization" and kind not in (None, Kind.RGB, Kind.RGBA):
            raise ValueError(f"visualization is for 8-bit rgb and rgba, but raster_type is {kind}")
        return profile

    _check_collection = field_validator("collection")(require_collection_id)

    @field_validator("datetime")
    @classmethod
    def _read_moment(cls, text: str | None) -> str | None:
        if text is None:
            return None
        try:
            if MOMENT.fullmatch(text):
                return datetime.fromisoformat(text).astimezone(UTC).isoformat()
        except (ValueError, OverflowError):
            pass
        raise ValueError(f"{text[:80]!r}: {_explain_moment(text)}. Write it like 2026-03-21T10:15:00Z")


class NamedSource(StrictModel):
    """A file to publish, and the id of its item, if the caller chose it."""

    source: str
    item_id: str | None = None

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str) -> str:
        name = PurePosixPath(source).name
        suffix = PurePosixPath(name).suffix.lower()
        if suffix and suffix not in SUFFIXES:  # without an extension, the content decides
            raise ValueError(
                f"{name[-80:]} has the extension {suffix[:20]}, which is not one of a supported raster format."
                f" {how_to_convert(suffix, name)} Supported extensions: {', '.join(sorted(SUFFIXES))}"
            )
        return source

    _check_item = field_validator("item_id")(require_item_id)


class RasterRequest(PublishOptions, NamedSource):
    """A caller's request for a raster: the inputs of its workflow."""

    tiling: Tiling = "auto"
    tile_items: bool = False
    variable: str | None = None
    time: str | None = None
    sidecars: tuple[str, ...] = ()
    versions: dict[str, str] | None = Field(None, max_length=MAX_VERSIONS)

    @field_validator("tile_items")
    @classmethod
    def _check_tile_items(cls, given: bool, info: ValidationInfo) -> bool:  # as pydantic calls it
        if given and info.data.get("tiling") == "never":
            raise ValueError("tile_items is for rasters in tiles, but tiling is never")
        if given and len(info.data.get("item_id") or "") > MAX_ITEM_ID_CHARS - TILE_SUFFIX_CHARS:
            raise ValueError(f"item_id is too long for items of tiles, which add up to {TILE_SUFFIX_CHARS} characters")
        return given

    @field_validator("sidecars")
    @classmethod
    def _check_sidecars(cls, given: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        source = PurePosixPath(info.data.get("source", "")).name
        odd = [name for name in (PurePosixPath(address).name for address in given) if not find_kind(name, source)]
        if odd and source:
            raise ValueError(
                f"{odd[0][-80:]} is no sidecar of {source[-80:]}. Give files like {', '.join(sidecar_names(source))}"
            )
        return given


def _explain_moment(text: str) -> str:
    """Why the text is not a moment."""
    if not MOMENT.fullmatch(text):
        return "that is not a date and time with a time zone"
    day, _, clock = text.partition("T")
    try:
        date.fromisoformat(day)
    except ValueError:
        return f"the day {day} does not exist"
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return f"the time {clock} does not exist"
    return "that is not between the years 1 and 9999 in UTC"
