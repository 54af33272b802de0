"""Parameters and results of the raster handlers, validated where they enter."""

from abc import abstractmethod

from pydantic import AwareDatetime, Field, JsonValue, field_serializer

from anabranch.plugins.raster.formats.models import Choice
from anabranch.plugins.raster.models import (
    Checked,
    CogOptions,
    Compared,
    Notice,
    Profile,
    Sidecar,
    Validated,
    ValidateOptions,
)
from anabranch.plugins.raster.request import Tiling
from anabranch.plugins.stac.facts import Output, RasterItem
from anabranch.storage.listed_files import PlannedFile
from anabranch.strict_model import StrictModel

__all__ = [
    "CheckedFile",
    "Cog",
    "CogParams",
    "CogSource",
    "Cogs",
    "CogsParams",
    "ItemParams",
    "Plan",
    "Report",
    "SourceFile",
    "ValidateParams",
    "Verified",
    "VerifiedCog",
    "VerifyParams",
]


class Plan(PlannedFile):
    """The outputs that will be made if the raster is valid."""

    datetime: str | None
    tiers: tuple[Profile, ...]
    outputs: tuple[str, ...]
    warnings: tuple[Notice, ...] = ()
    sidecars: tuple[Sidecar, ...] = ()
    versions: dict[str, str] = Field({})
    pin: str | None = None  # the version that is read by ranges; a source without it is staged


class ValidateParams(ValidateOptions):
    """A raster, identified by its checksum or by its version from an earlier `stat`, and the caller's options."""

    source: str
    sha256: str | None = None
    tag: str | None = None
    pin: str | None = None
    tiling: Tiling = "auto"
    variable: str | None = None
    time: str | None = None
    sidecars: tuple[Sidecar, ...] = ()

    @property
    def options(self) -> ValidateOptions:
        """The options alone."""
        return ValidateOptions(**self.model_dump(include=set(ValidateOptions.model_fields)))

    @property
    def choice(self) -> Choice:
        """What is taken of a file that is no plain GeoTIFF."""
        return Choice(variable=self.variable, time=self.time, input_crs=self.input_crs, sidecars=self.sidecars)


class CheckedFile(Checked):
    """A checked raster, from here on identified by its content."""

    sha256: str


class CogSource(StrictModel):
    """A checked raster, and the CRS of its COGs."""

    source: str
    sha256: str
    pin: str | None = None
    raster: Validated
    target_crs: str | None = None

    def options(self, profile: Profile, memory_mb: int) -> CogOptions:
        """How to write its COG of a profile."""
        return CogOptions(
            kind=self.raster.kind,
            discrete=self.raster.discrete,
            profile=profile,
            repairs=self.raster.repairs,
            target_crs=self.target_crs,
            memory_mb=memory_mb,
        )


class CogParams(CogSource):
    """A checked raster, and the profile of one COG."""

    tier: Profile


class CogsParams(CogSource):
    """A checked raster, and the profiles of its COGs."""

    tiers: tuple[Profile, ...]


class Cog(StrictModel):
    """A COG in the silver tier that is not verified yet."""

    tier: Profile
    address: str
    size: int
    sha256: str


class Cogs(StrictModel):
    """The COGs of a raster, in the order of their profiles."""

    cogs: tuple[Cog, ...] = ()


class ItemParams(CogSource):
    """A raster, and the fields of its item."""

    item_id: str | None = None
    title: str | None = None
    datetime: str | None = None
    modified: AwareDatetime
    versions: dict[str, str] = Field({})
    notices: tuple[Notice, ...] = ()

    @property
    @abstractmethod
    def profiles(self) -> tuple[Profile, ...]:
        """Those that it is published in; maps show the first."""

    @property
    def tiled(self) -> bool:
        """Whether it is published in tiles."""
        return False


class VerifyParams(ItemParams):
    """A raster, its COGs, and the fields of its item."""

    cogs: tuple[Cog, ...]

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Those of its COGs."""
        return tuple(cog.tier for cog in self.cogs)


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
