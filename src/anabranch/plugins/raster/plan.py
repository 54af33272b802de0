"""The plan for a raster, made before any of it is read."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.combined_errors import raise_all
from anabranch.plugins.raster.files.magic_bytes import CONTAINER_SUFFIXES
from anabranch.plugins.raster.handler_models import Plan
from anabranch.plugins.raster.item.publication import name_cog
from anabranch.plugins.raster.request import RasterRequest, Tiling
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.storage.tiers import Stat

__all__ = ["plan_work", "require_single"]

MB = 2**20


def plan_work(request: RasterRequest, found: Stat, settings: RasterSettings) -> Plan:
    """The plan; raises Permanent with every error."""
    raise_all([*_check_file(found, request, settings)])
    name, profiles = PurePosixPath(found.key).name, request.profiles
    return Plan(
        source=request.source,
        name=name,
        size=found.size,
        tag=found.tag,
        modified=found.modified.isoformat(),
        datetime=request.datetime,
        collection=request.collection,
        tiers=profiles,
        outputs=(*(name_cog(name, profile) for profile in profiles), "thumbnail.png", "report.json"),
    )


def require_single(pixels: int, tiling: Tiling, settings: RasterSettings) -> None:
    """Refuse a raster that is too large for one COG."""
    if tiling != "never" and pixels > settings.raster_single_pixels:
        raise _too_large(f"it would have {pixels:,} pixels, and the limit is {settings.raster_single_pixels:,}")


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
    elif request.tiling == "auto" and not _is_container(name) and found.size > settings.raster_single_bytes:
        yield _too_large(f"it has {found.size:,} bytes, and the limit is {settings.raster_single_bytes:,}")


def _is_container(name: str) -> bool:
    """Whether only a part of the file becomes a COG, so that its size says little; pixels are counted later."""
    return PurePosixPath(name).suffix.lower() in CONTAINER_SUFFIXES


def _too_large(reason: str) -> Permanent:
    return Permanent(
        f"the raster is too large for one COG: {reason}; splitting into tiles is not available yet",
        code="raster.tiled_unavailable",
        remedy="Send it in parts, or set `tiling: never` if disk space and time suffice for one COG.",
    )
