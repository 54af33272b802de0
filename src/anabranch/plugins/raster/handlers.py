"""Handlers on rasters: they fetch and store files, and open untrusted files only in a sandbox."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import AnabranchError, NotFound, Permanent
from anabranch.plugins.raster.handler_models import Checked, Cog, CogParams, ValidateParams, Verified, VerifyParams
from anabranch.plugins.raster.models import CogOptions, Limits, Notice, Profile, Validated, ValidateOptions
from anabranch.plugins.raster.plan import (
    Plan,
    RasterRequest,
    name_cog,
    plan_work,
    profiles_of,
    raise_request_errors,
    require_single,
)
from anabranch.plugins.raster.publication import COG_TYPE
from anabranch.plugins.raster.publish_facts import collect_outputs
from anabranch.plugins.raster.sandbox_calls import run_in_sandbox
from anabranch.plugins.raster.settings import RasterSettings

__all__ = ["create_cog", "preflight", "refuse_answer", "validate", "verify"]

QUEUE = "raster"


@handler("raster.preflight", queue="files", timeout_seconds=120)
def preflight(params: RasterRequest, ctx: Context) -> Plan:
    """Return the plan for a raster, or every error in the request; the file is not read."""
    try:
        found = ctx.storage.stat(params.source)
    except AnabranchError as error:
        raise_request_errors(params, error)
        raise
    plan = plan_work(params, found, ctx.settings(RasterSettings))
    return plan.model_copy(update={"warnings": tuple(_warn_of_mask_file(params.source, ctx))})


def _warn_of_mask_file(source: str, ctx: Context) -> Iterator[Notice]:
    """Warn of a separate mask file beside the raster, which is not read."""
    try:
        beside = ctx.storage.stat(f"{source}.msk")
    except AnabranchError:  # it does not exist or can't be checked: no reason to fail
        return
    name = PurePosixPath(beside.key).name
    ignored = (
        f"The mask file {name} beside the raster is not read: all pixels count as data unless the file says otherwise."
    )
    how = "To use it, write it into the raster: gdal_translate --config GDAL_TIFF_INTERNAL_MASK YES."
    yield Notice(code="raster.mask_beside", message=f"{ignored} {how}")


@handler("raster.refuse_answer", queue="files", timeout_seconds=60)
def refuse_answer(ctx: Context) -> None:
    """Fail a job whose review answer is neither yes nor no."""
    raise Permanent(
        "the review answer has no `approved` that is true or false",
        code="raster.unclear_answer",
        remedy="Run `anabranch retry JOB --from review`, then signal -p approved=true, or -p approved=false -p why=….",
    )


@handler("raster.validate", queue=QUEUE, timeout_seconds=3_600)
def validate(params: ValidateParams, ctx: Context) -> Checked:
    """Check a raster: format, georeference, pixels, kind; all errors are reported at once."""
    settings, profiles = ctx.settings(RasterSettings), profiles_of(params.tier)
    path = ctx.storage.fetch(params.source, params.sha256)
    options = ValidateOptions(
        name=path.name,
        input_crs=params.input_crs,
        target_crs=params.target_crs,
        raster_type=params.raster_type,
        profile=profiles[0],
        limits=Limits(
            max_bytes=settings.raster_max_mb * 2**20,
            max_pixels=settings.raster_max_pixels,
            max_bands=settings.raster_max_bands,
            max_block_bytes=settings.raster_max_block_mb * 2**20,
            max_expansion=settings.raster_max_expansion,
        ),
        memory_mb=settings.raster_memory_mb,
    )
    arguments = {"path": str(path), "options": options.model_dump(mode="json"), "profiles": list(profiles)}
    checked = Checked.model_validate(run_in_sandbox(ctx, "look", arguments, folder=_sandbox_folder(ctx), reads=[path]))
    require_single(checked.pixels, params.tiling, settings)
    return checked


@handler("raster.create_cog", queue=QUEUE, timeout_seconds=21_600)
def create_cog(params: CogParams, ctx: Context) -> Cog:
    """Turn one raster into one Cloud-Optimized GeoTIFF; one that an earlier attempt stored is reused."""
    if (done := ctx.resume()) and done.phase == "put" and _is_there(ctx, cog := Cog.model_validate(done.state)):
        return cog
    path = _write_cog(params, ctx, _sandbox_folder(ctx))
    output = ctx.storage.put(path, name=name_cog(params.raster.name, params.tier), media_type=COG_TYPE)
    cog = Cog(tier=params.tier, address=output.address, size=output.size, sha256=output.sha256)
    ctx.checkpoint("put", cog.model_dump(mode="json"))
    return cog


def _is_there(ctx: Context, cog: Cog) -> bool:
    """Whether the object of an earlier attempt still exists, with its full size."""
    try:
        return ctx.storage.stat(cog.address).size == cog.size
    except NotFound:
        return False


def _write_cog(params: CogParams, ctx: Context, folder: Path) -> Path:
    source, target = ctx.storage.fetch(params.source, params.sha256), folder / "cog.tif"
    options = _cog_options(ctx, params.raster, params.tier, params.target_crs)
    run_in_sandbox(
        ctx, "write", {"source": str(source), "target": str(target), "options": options}, folder=folder, reads=[source]
    )
    return target


@handler("raster.verify", queue=QUEUE, timeout_seconds=7_200)
def verify(params: VerifyParams, ctx: Context) -> Verified:
    """Compare the COGs with their source, pixel by pixel where nothing was resampled, and collect the outputs."""
    source = ctx.storage.fetch(params.source, params.sha256)
    paths = [ctx.storage.fetch(cog.address, cog.sha256) for cog in params.cogs]
    thumbnail = _sandbox_folder(ctx) / "thumbnail.png"
    found: list[dict[str, Any]] = []
    for cog, path in zip(params.cogs, paths, strict=True):
        options = _cog_options(ctx, params.raster, cog.tier, params.target_crs)
        arguments = {"source": str(source), "path": str(path), "options": options}
        if not found:  # the first COG is also described, in the process that has it open
            arguments["thumbnail"] = str(thumbnail)
        found.append(run_in_sandbox(ctx, "check", arguments, folder=thumbnail.parent, reads=[source, path]))
    return collect_outputs(params, ctx, [each["checked"] for each in found], found[0]["described"], thumbnail)


def _sandbox_folder(ctx: Context) -> Path:
    """A folder for a sandbox to write in; sources lie outside it, since they are links to files that others share."""
    folder = ctx.scratch / "aside"
    folder.mkdir(exist_ok=True)
    return folder


def _cog_options(ctx: Context, raster: Validated, profile: Profile, target_crs: str | None) -> dict[str, Any]:
    memory = ctx.settings(RasterSettings).raster_memory_mb
    options = CogOptions(
        kind=raster.kind,
        discrete=raster.discrete,
        profile=profile,
        repairs=raster.mends,
        target_crs=target_crs,
        memory_mb=memory,
    )
    return options.model_dump(mode="json")
