"""Parameters and results of the raster handlers, validated where they enter."""

from pydantic import AwareDatetime, JsonValue, field_serializer

from anabranch.plugins.raster.models import (
    CogOptions,
    Compared,
    Notice,
    Profile,
    Validated,
    ValidateOptions,
)
from anabranch.plugins.raster.request import Tiling
from anabranch.plugins.stac.facts import Output, RasterItem
from anabranch.strict_model import StrictModel

__all__ = [
    "Cog",
    "CogParams",
    "CogSource",
    "Plan",
    "Report",
    "ValidateParams",
    "Verified",
    "VerifiedCog",
    "VerifyParams",
]


class Plan(StrictModel):
    """The outputs that will be made if the raster is valid."""

    source: str
    name: str
    size: int
    tag: str
    modified: str
    datetime: str | None
    collection: str
    tiers: tuple[Profile, ...]
    outputs: tuple[str, ...]
    warnings: tuple[Notice, ...] = ()


class ValidateParams(ValidateOptions):
    """A staged raster, and the caller's options."""

    source: str
    sha256: str
    tiling: Tiling = "auto"

    @property
    def options(self) -> ValidateOptions:
        """The options alone."""
        return ValidateOptions(**self.model_dump(include=set(ValidateOptions.model_fields)))


class CogSource(StrictModel):
    """A checked raster, and the CRS of its COGs."""

    source: str
    sha256: str
    raster: Validated
    target_crs: str | None = None

    def options(self, profile: Profile, memory_mb: int) -> CogOptions:
        """How to write its COG of a profile."""
        return CogOptions(
            kind=self.raster.kind,
            discrete=self.raster.discrete,
            profile=profile,
            repairs=self.raster.mends,
            target_crs=self.target_crs,
            memory_mb=memory_mb,
        )


class CogParams(CogSource):
    """A checked raster, and the profile of one COG."""

    tier: Profile


class Cog(StrictModel):
    """A COG in the silver tier that is not verified yet."""

    tier: Profile
    address: str
    size: int
    sha256: str


class VerifyParams(CogSource):
    """A raster, its COGs, and the fields of its item."""

    cogs: tuple[Cog, ...]
    item_id: str | None = None
    title: str | None = None
    datetime: str | None = None
    modified: AwareDatetime
    notices: tuple[Notice, ...] = ()


class Verified(StrictModel):
    """A verified raster: its objects, the facts of its item, and the address of the report."""

    outputs: tuple[Output, ...]
    item: RasterItem
    warnings: tuple[Notice, ...]
    report: str

    @field_serializer("item")
    def _leave_out_none(self, item: RasterItem) -> dict[str, JsonValue]:
        return item.model_dump(mode="json", exclude_none=True)


class SourceFile(StrictModel):
    """The file that a raster was published from."""

    address: str
    sha256: str


class VerifiedCog(Cog):
    """A COG with the result of its verification."""

    verified: Compared


class Report(StrictModel):
    """What was detected, decided and repaired."""

    source: SourceFile
    raster: Validated
    target_crs: str | None
    cogs: tuple[VerifiedCog, ...]
    warnings: tuple[Notice, ...]
    software: dict[str, str]
