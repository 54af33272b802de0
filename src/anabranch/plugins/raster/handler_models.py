"""Parameters and results of the raster handlers, validated where they enter."""

from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from anabranch.plugins.raster.models import Kind, Notice, Profile, Validated
from anabranch.plugins.raster.plan import ProfileName, Tiling
from anabranch.plugins.raster.publication import Product

__all__ = ["Checked", "Cog", "CogParams", "ValidateParams", "Verified", "VerifyParams"]


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ValidateParams(Strict):
    """A staged raster, and the caller's options."""

    source: str
    sha256: str
    input_crs: str | None = None
    target_crs: str | None = None
    raster_type: Kind | None = None
    tier: ProfileName = "analysis"
    tiling: Tiling = "auto"


class Checked(Strict):
    """A raster that can be published, and the profiles of its COGs."""

    raster: Validated
    tiers: tuple[Profile, ...]
    pixels: int


class CogParams(Strict):
    """A checked raster, and the profile of one COG."""

    source: str
    sha256: str
    raster: Validated
    tier: Profile
    target_crs: str | None = None


class Cog(Strict):
    """A COG in the silver tier that is not verified yet."""

    tier: Profile
    address: str
    size: int
    sha256: str


class VerifyParams(Strict):
    """A raster, its COGs, and the fields of its item."""

    source: str
    sha256: str
    raster: Validated
    cogs: tuple[Cog, ...]
    target_crs: str | None = None
    title: str | None = None
    datetime: str | None = None
    modified: AwareDatetime
    notices: tuple[Notice, ...] = ()


class Verified(Strict):
    """A verified raster: its objects, the facts of its item, and the address of the report."""

    outputs: tuple[Product, ...]
    item: dict[str, Any]  # the parameters of the catalog's handlers
    warnings: tuple[Notice, ...]
    report: str
