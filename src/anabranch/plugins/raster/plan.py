"""The plan for a raster, made before any of it is read."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import PurePosixPath

from anabranch.errors import AnabranchError, Permanent
from anabranch.plugins.raster.checks.combined_errors import raise_all
from anabranch.plugins.raster.files.magic_bytes import SUFFIXES, how_to_convert
from anabranch.plugins.raster.handler_models import Plan, RasterRequest, Tiling
from anabranch.plugins.raster.item.publication import name_cog
from anabranch.plugins.raster.models import CRS_PATTERN, Kind
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.stac.names import is_collection_id
from anabranch.storage.tiers import Stat

__all__ = ["plan_work", "raise_request_errors", "require_single"]

MB = 2**20
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)
DRAFT_ADDRESS = re.compile(r"(silver|gold)://jobs/")


def plan_work(request: RasterRequest, found: Stat, settings: RasterSettings) -> Plan:
    """The plan; raises Permanent with every error."""
    raise_all([*_check_file(found, request, settings), *_check_options(request)])
    name, profiles = PurePosixPath(found.key).name, request.profiles
    return Plan(
        source=request.source,
        name=name,
        size=found.size,
        tag=found.tag,
        modified=found.modified.isoformat(),
        datetime=_moment(request.datetime) if request.datetime else None,
        collection=request.collection,
        tiers=profiles,
        outputs=(*(name_cog(name, profile) for profile in profiles), "thumbnail.png", "report.json"),
    )


def raise_request_errors(request: RasterRequest, missing: AnabranchError) -> None:
    """Raise the request's errors together with that of the missing file; do nothing where the request is valid."""
    if errors := list(_check_options(request)):
        raise_all([Permanent(missing.message, code=missing.code, remedy=missing.remedy), *errors])


def require_single(pixels: int, tiling: Tiling, settings: RasterSettings) -> None:
    """Refuse a raster that is too large for one COG."""
    if tiling != "never" and pixels > settings.raster_single_pixels:
        raise _too_large(f"it would have {pixels:,} pixels, and the limit is {settings.raster_single_pixels:,}")


def _check_file(found: Stat, request: RasterRequest, settings: RasterSettings) -> Iterator[Permanent]:
    name, most = PurePosixPath(found.key).name, settings.raster_max_mb
    suffix = PurePosixPath(name).suffix.lower()
    if suffix and suffix not in SUFFIXES:  # without an extension, the content decides
        yield Permanent(
            f"{name} has the extension {suffix}, which is not a supported raster format",
            code="raster.extension",
            remedy=f"{how_to_convert(suffix, name)} Supported extensions: {', '.join(sorted(SUFFIXES))}.",
        )
    if found.size == 0:
        yield Permanent(f"{name} has zero bytes", code="raster.empty", remedy="Upload the file again.")
    if found.size > most * MB:
        yield Permanent(
            f"{name} has {found.size // MB} MB, and the limit is {most} MB",
            code="raster.too_large",
            remedy="Send a smaller file, or ask the operator to raise ANABRANCH_RASTER_MAX_MB.",
        )
    elif request.tiling == "always":
        yield _not_tiled("`tiling: always` asks for tiles")
    elif request.tiling == "auto" and found.size > settings.raster_single_bytes:
        yield _too_large(f"it has {found.size:,} bytes, and the limit is {settings.raster_single_bytes:,}")


def _check_options(request: RasterRequest) -> Iterator[Permanent]:
    for name in ("input_crs", "target_crs"):
        text = getattr(request, name)
        if text is not None and not re.fullmatch(CRS_PATTERN, text):
            yield Permanent(
                f"{name} is {text[:80]!r}, which is not the code of a CRS",
                code="raster.crs_text",
                remedy="Write it like EPSG:25832.",
            )
    if DRAFT_ADDRESS.match(request.source):
        yield Permanent(
            f"{request.source[:80]} is an output of a job, which may not be published yet",
            code="raster.draft",
            remedy="Send the source again, or an object of the bronze tier.",
        )
    if request.raster_type is not None and request.raster_type not in set(Kind):
        yield Permanent(
            f"raster_type is {request.raster_type[:80]!r}, which is not a kind of raster",
            code="raster.kind_unknown",
            remedy=f"The kinds are {', '.join(Kind)}.",
        )
    if not is_collection_id(request.collection):  # the catalog would refuse it only after all work is done
        yield Permanent(
            f"{request.collection[:80]!r} can't be the id of a collection",
            code="raster.collection",
            remedy="Use 1 to 63 letters, digits, dashes, underscores and single dots; begin with a letter or digit.",
        )
    if request.datetime is not None and _moment(request.datetime) is None:
        yield Permanent(
            f"datetime is {request.datetime[:80]!r}, {_explain_moment(request.datetime)}",
            code="raster.datetime",
            remedy="Write it like 2026-03-21T10:15:00Z.",
        )


def _moment(text: str) -> str | None:
    """The moment as the catalog writes it; None where the text is not a moment."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat() if MOMENT.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None


def _explain_moment(text: str) -> str:
    """Why the text is not a moment."""
    if not MOMENT.fullmatch(text):
        return "which is not a date and time with a time zone"
    day, _, clock = text.partition("T")
    try:
        date.fromisoformat(day)
    except ValueError:
        return f"but the day {day} does not exist"
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return f"but the time {clock} does not exist"
    return "which is not between the years 1 and 9999 in UTC"


def _too_large(reason: str) -> Permanent:
    return _not_tiled(f"the raster is too large for one COG: {reason}")


def _not_tiled(reason: str) -> Permanent:
    return Permanent(
        f"{reason}; splitting into tiles is not available yet",
        code="raster.tiled_unavailable",
        remedy="Send it in parts, or set `tiling: never` if disk space and time suffice for one COG.",
    )
