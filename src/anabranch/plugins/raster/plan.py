"""The plan for a raster, made before any of it is read."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.combined_errors import raise_all
from anabranch.plugins.raster.handler_models import Plan
from anabranch.plugins.raster.item.publication import name_cog
from anabranch.plugins.raster.models import Checked
from anabranch.plugins.raster.request import RasterRequest, Tiling
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.storage.listed_files import PlannedFile
from anabranch.storage.tiers import Stat

__all__ = ["is_tiled", "plan_work"]

MB = 2**20


def plan_work(request: RasterRequest, found: Stat, settings: RasterSettings) -> Plan:
    """The plan; raises Permanent with every error."""
    raise_all([*_check_file(found, request, settings)])
    file, profiles = PlannedFile.of(request.source, found, request.collection), request.profiles
    return Plan(
        **file.model_dump(),
        datetime=request.datetime,
        tiers=profiles,
        outputs=(*(name_cog(file.name, profile) for profile in profiles), "thumbnail.png", "report.json"),
    )


def is_tiled(checked: Checked, tiling: Tiling, settings: RasterSettings) -> bool:
    """Whether a raster becomes tiles: where that is asked for, or where it is too large for one COG."""
    if tiling != "auto":
        return tiling == "always"
    size = 0 if checked.raster.origin else checked.raster.size_bytes  # of a converted file only a part may be used
    return size > settings.raster_single_bytes or checked.pixels > settings.raster_single_pixels


def _check_file(found: Stat, request: RasterRequest, settings: RasterSettings) -> Iterator[Permanent]:
    name, most = PurePosixPath(found.key).name, settings.raster_max_mb
    if found.size == 0:
        yield Permanent(f"{name} has zero bytes", code="raster.empty", remedy="Upload the file again.")
    if found.size > most * MB:
        yield Permanent(
            f"{name} has {found.size // MB} MB, and the limit is {most} MB",
            code="raster.too_large",
            remedy="Send a smaller file, or ask the operator to raise ANABRANCH_RASTER_MAX_MB.",
        )
