"""What passes between the steps of the work on a raster: checked where it enters."""

from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from anabranch.plugins.raster.models import Kind, Notice, Tier, Validated
from anabranch.plugins.raster.plan import TierName, Tiling
from anabranch.plugins.raster.publication import Product

__all__ = ["Checked", "Cog", "CogParams", "ValidateParams", "Verified", "VerifyParams"]


class Strict(BaseModel):
    """No parameter that nobody reads."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ValidateParams(Strict):
    """A staged raster, and what its caller wants of it."""

    source: str
    sha256: str
    input_crs: str | None = None
    target_crs: str | None = None
    raster_type: Kind | None = None
    tier: TierName = "analysis"
    tiling: Tiling = "auto"


class Checked(Strict):
    """A raster that can be published, and what its COGs are for."""

    raster: Validated
    tiers: tuple[Tier, ...]
    pixels: int


class CogParams(Strict):
    """A checked raster, and what one COG of it is for."""

    source: str
    sha256: str
    raster: Validated
    tier: Tier
    target_crs: str | None = None


class Cog(Strict):
    """A COG in the silver tier that was not verified yet."""

    tier: Tier
    address: str
    size: int
    sha256: str


class VerifyParams(Strict):
    """A raster and its COGs, and what the item is to say."""

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
    """What can be published: the objects, the facts of the item, and the report that goes with them."""

    outputs: tuple[Product, ...]
    item: dict[str, Any]  # as the catalog's handlers take it
    warnings: tuple[Notice, ...]
    report: str
