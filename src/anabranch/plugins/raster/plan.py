"""What will be made of a raster, as far as that can be said before any of it is read."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Literal

from pydantic import BaseModel, ConfigDict

from anabranch.errors import AnabranchError, Permanent
from anabranch.plugins.raster.mistakes import raise_all
from anabranch.plugins.raster.models import CRS_PATTERN, Kind, Notice, Tier
from anabranch.plugins.raster.publication import slug
from anabranch.plugins.raster.signs import SUFFIXES, how_to_convert
from anabranch.settings import Settings
from anabranch.storage.tiers import Stat

__all__ = ["Plan", "Wishes", "name_cog", "plan_work", "require_single", "require_words", "tiers_of"]

MB = 2**20
# As the catalog's ids are; it would refuse others only when all work is done.
COLLECTION = re.compile(r"(?=.{1,63}$)[A-Za-z0-9](?:\.?[A-Za-z0-9_-])*", re.ASCII)
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)
DRAFTS = re.compile(r"(silver|gold)://jobs/")
TierName = Literal["analysis", "visualization", "archive", "all"]
Tiling = Literal["auto", "never", "always"]


class Wishes(BaseModel):
    """What a caller wants of a raster, as the workflow's inputs say it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    collection: str
    input_crs: str | None = None
    target_crs: str | None = None
    raster_type: str | None = None
    tier: TierName = "analysis"
    tiling: Tiling = "auto"
    datetime: str | None = None


class Plan(BaseModel):
    """What will be made, if the raster is sound."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    name: str
    size: int
    tag: str
    modified: str
    datetime: str | None
    collection: str
    tiers: tuple[Tier, ...]
    outputs: tuple[str, ...]
    warnings: tuple[Notice, ...] = ()


def plan_work(wishes: Wishes, found: Stat, settings: Settings) -> Plan:
    """The plan; Permanent with all that stands against it."""
    raise_all([*_check_file(found, wishes, settings), *_check_words(wishes)])
    name, tiers = PurePosixPath(found.key).name, tiers_of(wishes.tier)
    return Plan(
        source=wishes.source,
        name=name,
        size=found.size,
        tag=found.tag,
        modified=found.modified.isoformat(),
        datetime=_moment(wishes.datetime) if wishes.datetime else None,
        collection=wishes.collection,
        tiers=tiers,
        outputs=(*(name_cog(name, tier) for tier in tiers), "thumbnail.png", "report.json"),
    )


def require_words(wishes: Wishes, missing: AnabranchError) -> None:
    """Raise what is wrong with the wishes, together with why there is no file; nothing where they are right."""
    if mistakes := list(_check_words(wishes)):
        raise_all([Permanent(missing.message, code=missing.code, remedy=missing.remedy), *mistakes])


def tiers_of(tier: TierName) -> tuple[Tier, ...]:
    """The COGs that a wish means."""
    return tuple(Tier) if tier == "all" else (Tier(tier),)


def name_cog(name: str, tier: Tier) -> str:
    """What readers see a COG as."""
    stem = slug(PurePosixPath(name).stem)
    return f"{stem}.tif" if tier is Tier.ANALYSIS else f"{stem}.{tier}.tif"


def require_single(pixels: int, tiling: Tiling, settings: Settings) -> None:
    """Refuse what one COG should not hold."""
    if tiling != "never" and pixels > settings.raster_single_pixels:
        raise _too_large(f"it would have {pixels:,} pixels, and one COG holds {settings.raster_single_pixels:,}")


def _check_file(found: Stat, wishes: Wishes, settings: Settings) -> Iterator[Permanent]:
    name, most = PurePosixPath(found.key).name, settings.raster_max_mb
    suffix = PurePosixPath(name).suffix.lower()
    if suffix and suffix not in SUFFIXES:  # of a name without one, the content says what it is
        yield Permanent(
            f"{name} ends in {suffix}, which is no raster that can be read",
            code="raster.extension",
            remedy=f"{how_to_convert(suffix, name)} What is read: {', '.join(sorted(SUFFIXES))}.",
        )
    if found.size == 0:
        yield Permanent(f"{name} has zero bytes", code="raster.empty", remedy="Upload the file again.")
    if found.size > most * MB:
        yield Permanent(
            f"{name} has {found.size // MB} MB, and {most} MB are allowed",
            code="raster.too_large",
            remedy="Send a smaller file, or let the operator raise ANABRANCH_RASTER_MAX_MB.",
        )
    elif wishes.tiling == "always":
        yield _not_tiled("`tiling: always` asks for tiles")
    elif wishes.tiling == "auto" and found.size > settings.raster_single_bytes:
        yield _too_large(f"it has {found.size:,} bytes, and one COG is made of {settings.raster_single_bytes:,}")


def _check_words(wishes: Wishes) -> Iterator[Permanent]:
    for name in ("input_crs", "target_crs"):
        text = getattr(wishes, name)
        if text is not None and not re.fullmatch(CRS_PATTERN, text):
            yield Permanent(
                f"{name} is {text[:80]!r}, which is not a code of an authority",
                code="raster.crs_text",
                remedy="Write it like EPSG:25832.",
            )
    if DRAFTS.match(wishes.source):
        yield Permanent(
            f"{wishes.source[:80]} is what a job made, and may not be published yet",
            code="raster.draft",
            remedy="Send the source again, or an object of the bronze tier.",
        )
    if wishes.raster_type is not None and wishes.raster_type not in set(Kind):
        yield Permanent(
            f"raster_type is {wishes.raster_type[:80]!r}, which is no kind of raster",
            code="raster.kind_unknown",
            remedy=f"The kinds are {', '.join(Kind)}.",
        )
    if not COLLECTION.fullmatch(wishes.collection):
        yield Permanent(
            f"{wishes.collection[:80]!r} can't be the id of a collection",
            code="raster.collection",
            remedy="Use 1 to 63 letters, digits, dashes, underscores and single dots; begin with a letter or digit.",
        )
    if wishes.datetime is not None and _moment(wishes.datetime) is None:
        yield Permanent(
            f"datetime is {wishes.datetime[:80]!r}, which is not a moment with its zone",
            code="raster.datetime",
            remedy="Write it like 2026-03-21T10:15:00Z.",
        )


def _moment(text: str) -> str | None:
    """A moment as the catalog writes it; None where the text is none."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat() if MOMENT.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None


def _too_large(reason: str) -> Permanent:
    return _not_tiled(f"the raster is too large for one COG: {reason}")


def _not_tiled(reason: str) -> Permanent:
    return Permanent(
        f"{reason}; cutting into tiles is not built yet",
        code="raster.tiled_unavailable",
        remedy="Send it in parts, or with `tiling: never` where disk and time allow one COG.",
    )
