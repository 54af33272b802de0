"""The models that steps of the work exchange: frozen, validated, JSON at the edges; nothing here imports GDAL."""

import math
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue, model_validator

from anabranch.contract.mosaic import Window
from anabranch.geo.boxes import Box
from anabranch.geo.crs_codes import CRS_PATTERN
from anabranch.plugins.stac.facts import Footprint
from anabranch.strict_model import StrictModel

__all__ = [
    "Band",
    "Checked",
    "CogOptions",
    "Compared",
    "Described",
    "Estimate",
    "Inspected",
    "Kind",
    "Nodata",
    "Notice",
    "Origin",
    "Profile",
    "ProfileName",
    "Projection",
    "Repairs",
    "Sidecar",
    "Statistics",
    "Target",
    "Times",
    "ValidateOptions",
    "Validated",
    "Window",
    "Written",
    "to_nodata",
    "to_number",
]

# JSON has no such numbers; STAC writes them as these strings.
Nodata = int | float | Literal["nan", "inf", "-inf"]
ProfileName = Literal["analysis", "visualization", "archive", "all"]


class Kind(StrEnum):
    """What a raster shows; this decides how it may be compressed and resampled."""

    RGB = "rgb"
    RGBA = "rgba"
    NIR = "nir"
    MULTISPECTRAL = "multispectral"
    VEGETATION_INDEX = "vegetation_index"
    DEM = "dem"
    CONTINUOUS = "continuous"
    CATEGORICAL = "categorical"
    FLOOD_DEPTH = "flood_depth"
    POPULATION = "population"
    HYDROLOGY = "hydrology"
    TEMPORAL = "temporal"


class Profile(StrEnum):
    """What a COG is for; stored results, and the parameters made of them, call it `tier`, its earlier name."""

    ANALYSIS = "analysis"
    VISUALIZATION = "visualization"
    ARCHIVE = "archive"


class Notice(StrictModel):
    """A warning that stops nothing."""

    code: str
    message: str


class ValidateOptions(StrictModel):
    """The caller's options for a raster."""

    input_crs: str | None = None
    target_crs: str | None = None
    raster_type: Kind | None = None
    profile: ProfileName = "analysis"
    tier: ProfileName | None = Field(None, description="The earlier name of `profile`, which it becomes.")

    @model_validator(mode="before")
    @classmethod
    def _read_tier(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        named = [value for name in ("profile", "tier") if (value := given.get(name)) is not None]
        if len(named) == 2 and named[0] != named[1]:
            raise ValueError(f"profile is {named[0]}, and tier, its earlier name, is {named[1]}. Give one of them")
        others = {name: value for name, value in given.items() if name not in ("profile", "tier")}
        return others | ({"profile": named[0]} if named else {})

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Those of the COGs to make."""
        return tuple(Profile) if self.profile == "all" else (Profile(self.profile),)


class Statistics(StrictModel):
    """Statistics of the valid pixels that were read; `exact` where all were read."""

    minimum: float
    maximum: float
    mean: float
    stddev: float
    valid_percent: float
    exact: bool = False


class Band(StrictModel):
    """One band: its metadata and the statistics of its pixels."""

    index: int
    dtype: str
    nodata: Nodata | None = None
    colour: str = "undefined"
    name: str = ""
    unit: str = ""
    scale: float = 1.0
    offset: float = 0.0
    palette: bool = False
    statistics: Statistics | None = None


class Repairs(StrictModel):
    """Repairs made while the COG is written; none of them changes a value."""

    crs: str | None = None
    nodata: Literal["keep", "drop", "nan"] = "keep"
    flip_rows: bool = False
    flip_columns: bool = False

    @property
    def any(self) -> bool:
        """Whether there is anything to repair."""
        return self != Repairs()


class Times(StrictModel):
    """The acquisition time: a moment, or a span."""

    moment: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None
    origin: Literal["tags", "name", "coordinate"]
    rule: str = ""  # where it was found


class Estimate(StrictModel):
    """A rough upper estimate of what the work needs."""

    memory_mb: int
    disk_mb: int
    seconds: int


class Sidecar(StrictModel):
    """A file beside a raster that says more of it; its SHA-256 is known once it is staged."""

    kind: Literal["world", "prj", "mask", "aux"]
    address: str
    sha256: str = ""


class Origin(StrictModel):
    """What the GeoTIFF that all steps read was made from, where the source is none or has sidecars."""

    format: str
    driver: str
    member: str = ""  # of a ZIP archive
    variable: str = ""
    time: str = ""  # the one that was chosen, or `all`
    sidecars: tuple[Sidecar, ...] = ()
    applied: tuple[str, ...] = ()  # what was used of the sidecars and the file's conventions
    stored: JsonValue = None  # that GeoTIFF in the work area, which all further steps read


class Validated(StrictModel):
    """A raster that can be published, with all facts and decisions."""

    name: str
    driver: str
    size_bytes: int
    width: int
    height: int
    dtype: str
    crs: str
    transform: tuple[float, float, float, float, float, float]
    bounds: Box
    bounds_wgs84: Box
    bands: tuple[Band, ...]
    mask: Literal["none", "nodata", "mask", "alpha"]
    kind: Kind
    detected: Kind
    why: str = ""  # the reason for the kind
    discrete: bool = False  # its few values may be classes, so they are not interpolated
    nodata_percent: float
    repairs: Repairs
    times: Times | None
    estimate: Estimate
    warnings: tuple[Notice, ...]
    origin: Origin | None = None
    sidecars: tuple[Sidecar, ...] = Field((), exclude_if=lambda read: not read)  # those that were read, used or not

    @model_validator(mode="before")
    @classmethod
    def _rename_repairs(cls, given: object) -> object:
        """Results that an earlier release stored have them under another key."""
        if isinstance(given, dict) and "mends" in given:
            return {("repairs" if key == "mends" else key): value for key, value in given.items()}
        return given


class Target(StrictModel):
    """The grid of a raster's COG; `crs` is a code, or WKT where the CRS has none."""

    width: int
    height: int
    crs: str
    pixel_size: tuple[float, float]


class Checked(StrictModel):
    """A raster that can be published, and the profiles of its COGs."""

    raster: Validated
    tiers: tuple[Profile, ...]
    pixels: int
    tiled: bool = False  # whether it becomes tiles rather than one COG
    target: Target | None = None  # none in results of earlier releases


class CogOptions(StrictModel):
    """How to write a COG, and with how much memory and how many threads."""

    kind: Kind
    discrete: bool = False
    profile: Profile = Profile.ANALYSIS
    repairs: Repairs = Repairs()
    target_crs: str | None = Field(default=None, pattern=CRS_PATTERN)
    resolution: float | None = Field(default=None, gt=0)
    window: Window | None = None
    overviews: int | None = Field(default=None, ge=0)  # how many; by default down to one block
    memory_mb: int = Field(default=1024, ge=256)
    threads: int = Field(default=0, ge=0)


class Written(StrictModel):
    """A COG on disk."""

    size_bytes: int
    width: int
    height: int
    compress: str
    lossy: bool
    resampled: bool
    rewritten: bool


class Compared(StrictModel):
    """A COG that passed the comparison with its source, with exact statistics of its bands."""

    size_bytes: int
    bands: tuple[Band, ...]
    compared: str
    overviews: tuple[int, ...]


class Projection(StrictModel):
    """The grid of a COG; its CRS is `code` or `projjson`, or both where its authority is not a common one."""

    code: str | None
    projjson: dict[str, JsonValue] | None  # of PROJ's own schema
    shape: tuple[int, int]
    transform: tuple[float, float, float, float, float, float]
    bbox: Box


class Inspected(StrictModel):
    """A verified COG as its item describes it: its footprint and grid, and the bands that maps show."""

    compared: Compared
    footprint: Footprint
    bbox: Box
    projection: Projection
    shown: tuple[int, ...]
    stretch: tuple[tuple[float, float], ...]
    software: dict[str, str]


class Described(StrictModel):
    """A raster that is cataloged in place: its facts, the area of all of its pixels, and whether it is a COG."""

    raster: Validated
    footprint: Footprint
    bbox: Box
    projection: Projection
    cloud_optimized: bool
    software: dict[str, str]


def to_nodata(value: float | None, dtype: str) -> Nodata | None:
    """A nodata value for JSON: an integer for integer types, a string for NaN and infinity."""
    if value is None:
        return None
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return int(value) if "int" in dtype and value == int(value) else float(value)


def to_number(nodata: Nodata | None) -> float | None:
    """The number of a value from `to_nodata`."""
    return None if nodata is None else float(nodata)
