"""Handlers on rasters: they fetch and put, and let a sandbox open what strangers sent."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import AnabranchError, NotFound, Permanent
from anabranch.plugins.raster.confined import run_confined
from anabranch.plugins.raster.gathering import gather
from anabranch.plugins.raster.models import CogOptions, Limits, Notice, Tier, Validated, ValidateOptions
from anabranch.plugins.raster.plan import (
    Plan,
    Wishes,
    name_cog,
    plan_work,
    require_single,
    require_words,
    tiers_of,
)
from anabranch.plugins.raster.publication import COG_TYPE
from anabranch.plugins.raster.steps import Checked, Cog, CogParams, ValidateParams, Verified, VerifyParams
from anabranch.settings import load_settings

__all__ = ["create_cog", "preflight", "refuse_answer", "validate", "verify"]

QUEUE = "raster"


@handler("raster.preflight", queue="files", timeout_seconds=120)
def preflight(params: Wishes, ctx: Context) -> Plan:
    """Say what will be made of a raster, or all that stands against it; nothing of it is read."""
    try:
        found = ctx.storage.stat(params.source)
    except AnabranchError as error:
        require_words(params, error)
        raise
    plan = plan_work(params, found, load_settings())
    return plan.model_copy(update={"warnings": tuple(_tell_sidecar(params.source, ctx))})


def _tell_sidecar(source: str, ctx: Context) -> Iterator[Notice]:
    """A mask in a file of its own says which pixels are data, and is not read."""
    try:
        beside = ctx.storage.stat(f"{source}.msk")
    except AnabranchError:  # there is none, or nobody may know: no reason to fail
        return
    name = PurePosixPath(beside.key).name
    told = (
        f"Beside the raster lies {name}, a mask that is not read: all pixels are taken for data unless the file itself"
    )
    how = "To have it, write it into the file: gdal_translate --config GDAL_TIFF_INTERNAL_MASK YES."
    yield Notice(code="raster.mask_beside", message=f"{told} says otherwise. {how}")


@handler("raster.refuse_answer", queue="files", timeout_seconds=60)
def refuse_answer(ctx: Context) -> None:
    """Fail a job whose reviewer said neither yes nor no."""
    raise Permanent(
        "the answer to the review has no `approved` that is true or false",
        code="raster.unclear_answer",
        remedy="Run `anabranch retry JOB --from review`, and signal -p approved=true, or -p approved=false -p why=….",
    )


@handler("raster.validate", queue=QUEUE, timeout_seconds=3_600)
def validate(params: ValidateParams, ctx: Context) -> Checked:
    """Look into a raster: format, place, pixels, kind; every mistake at once."""
    settings, tiers = load_settings(), tiers_of(params.tier)
    path = ctx.storage.fetch(params.source, params.sha256)
    options = ValidateOptions(
        name=path.name,
        input_crs=params.input_crs,
        target_crs=params.target_crs,
        raster_type=params.raster_type,
        tier=tiers[0],
        limits=Limits(
            max_bytes=settings.raster_max_mb * 2**20,
            max_pixels=settings.raster_max_pixels,
            max_bands=settings.raster_max_bands,
            max_block_bytes=settings.raster_max_block_mb * 2**20,
            max_expansion=settings.raster_max_expansion,
        ),
        memory_mb=settings.raster_memory_mb,
    )
    arguments = {"path": str(path), "options": options.model_dump(mode="json"), "tiers": list(tiers)}
    checked = Checked.model_validate(run_confined(ctx, "look", arguments, folder=_aside(ctx), reads=[path]))
    require_single(checked.pixels, params.tiling, settings)
    return checked


@handler("raster.create_cog", queue=QUEUE, timeout_seconds=21_600)
def create_cog(params: CogParams, ctx: Context) -> Cog:
    """Turn one raster into one Cloud-Optimized GeoTIFF; one that an earlier attempt stored is not made again."""
    if (done := ctx.resume()) and done.phase == "put" and _is_there(ctx, cog := Cog.model_validate(done.state)):
        return cog
    path = _write_cog(params, ctx, _aside(ctx))
    output = ctx.storage.put(path, name=name_cog(params.raster.name, params.tier), media_type=COG_TYPE)
    cog = Cog(tier=params.tier, address=output.address, size=output.size, sha256=output.sha256)
    ctx.checkpoint("put", cog.model_dump(mode="json"))
    return cog


def _is_there(ctx: Context, cog: Cog) -> bool:
    """Whether an object that an earlier attempt put is still there, and whole."""
    try:
        return ctx.storage.stat(cog.address).size == cog.size
    except NotFound:
        return False


def _write_cog(params: CogParams, ctx: Context, folder: Path) -> Path:
    source, target = ctx.storage.fetch(params.source, params.sha256), folder / "cog.tif"
    options = _cog_options(params.raster, params.tier, params.target_crs)
    run_confined(
        ctx, "write", {"source": str(source), "target": str(target), "options": options}, folder=folder, reads=[source]
    )
    return target


@handler("raster.verify", queue=QUEUE, timeout_seconds=7_200)
def verify(params: VerifyParams, ctx: Context) -> Verified:
    """Compare the COGs with their source, pixel by pixel where nothing was resampled, and gather what is published."""
    source = ctx.storage.fetch(params.source, params.sha256)
    paths = [ctx.storage.fetch(cog.address, cog.sha256) for cog in params.cogs]
    thumbnail = _aside(ctx) / "thumbnail.png"
    found: list[dict[str, Any]] = []
    for cog, path in zip(params.cogs, paths, strict=True):
        options = _cog_options(params.raster, cog.tier, params.target_crs)
        arguments = {"source": str(source), "path": str(path), "options": options}
        if not found:  # the first one is described, in the process that has it open
            arguments["thumbnail"] = str(thumbnail)
        found.append(run_confined(ctx, "check", arguments, folder=thumbnail.parent, reads=[source, path]))
    return gather(params, ctx, [each["checked"] for each in found], found[0]["described"], thumbnail)


def _aside(ctx: Context) -> Path:
    """A folder for a sandbox to write in: sources lie beside it, as links to what others use, too."""
    folder = ctx.scratch / "aside"
    folder.mkdir(exist_ok=True)
    return folder


def _cog_options(raster: Validated, tier: Tier, target_crs: str | None) -> dict[str, Any]:
    memory = load_settings().raster_memory_mb
    options = CogOptions(
        kind=raster.kind,
        discrete=raster.discrete,
        tier=tier,
        mends=raster.mends,
        target_crs=target_crs,
        memory_mb=memory,
    )
    return options.model_dump(mode="json")
