"""Handlers on rasters: they fetch and store files, and open untrusted files only in a sandbox."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pydantic import BaseModel

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import AnabranchError, NotFound
from anabranch.plugins.raster.handler_models import (
    Cog,
    CogParams,
    Plan,
    ValidateParams,
    Verified,
    VerifyParams,
)
from anabranch.plugins.raster.item.publication import COG_TYPE, collect_outputs, name_cog
from anabranch.plugins.raster.models import Checked, Compared, Inspected, Notice, Written
from anabranch.plugins.raster.plan import is_tiled, plan_work
from anabranch.plugins.raster.request import RasterRequest
from anabranch.plugins.raster.sandbox_calls import run_in_sandbox, sandbox_folder
from anabranch.plugins.raster.settings import RasterSettings

__all__ = ["create_cog", "preflight", "validate", "verify"]

QUEUE = "raster"


@handler("raster.preflight", queue="files", timeout_seconds=120)
def preflight(params: RasterRequest, ctx: Context) -> Plan:
    """Return the plan for a raster; the file is not read."""
    plan = plan_work(params, ctx.storage.stat(params.source), ctx.settings(RasterSettings))
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


@handler("raster.validate", queue=QUEUE, timeout_seconds=3_600)
def validate(params: ValidateParams, ctx: Context) -> Checked:
    """Check a raster: format, georeference, pixels, kind; all errors are reported at once."""
    settings = ctx.settings(RasterSettings)
    path = ctx.storage.fetch(params.source, params.sha256)
    checked = run_in_sandbox(ctx, "look", Checked, path=path, options=params.options, settings=settings)
    return checked.model_copy(update={"tiled": is_tiled(checked, params.tiling, settings)})


@handler("raster.create_cog", queue=QUEUE, timeout_seconds=21_600)
def create_cog(params: CogParams, ctx: Context) -> Cog:
    """Turn one raster into one Cloud-Optimized GeoTIFF; one that an earlier attempt stored is reused."""
    if (done := ctx.resume()) and done.phase == "put" and _is_there(ctx, cog := Cog.model_validate(done.state)):
        return cog
    source, target = ctx.storage.fetch(params.source, params.sha256), sandbox_folder(ctx) / "cog.tif"
    options = params.options(params.tier, ctx.settings(RasterSettings).raster_memory_mb)
    run_in_sandbox(ctx, "write", Written, source=source, target=target, options=options)
    output = ctx.storage.put(target, name=name_cog(params.raster.name, params.tier), media_type=COG_TYPE)
    cog = Cog(tier=params.tier, address=output.address, size=output.size, sha256=output.sha256)
    ctx.checkpoint("put", cog.model_dump(mode="json"))
    return cog


def _is_there(ctx: Context, cog: Cog) -> bool:
    """Whether the object of an earlier attempt still exists, with its full size."""
    try:
        return ctx.storage.stat(cog.address).size == cog.size
    except NotFound:
        return False


@handler("raster.verify", queue=QUEUE, timeout_seconds=7_200)
def verify(params: VerifyParams, ctx: Context) -> Verified:
    """Compare the COGs with their source, pixel by pixel where nothing was resampled, and collect the outputs."""
    source = ctx.storage.fetch(params.source, params.sha256)
    paths = [ctx.storage.fetch(cog.address, cog.sha256) for cog in params.cogs]
    memory, thumbnail = ctx.settings(RasterSettings).raster_memory_mb, sandbox_folder(ctx) / "thumbnail.png"
    first, *others = (
        dict[str, BaseModel | Path](source=source, path=path, options=params.options(cog.tier, memory))
        for cog, path in zip(params.cogs, paths, strict=True)
    )
    inspected = run_in_sandbox(ctx, "inspect", Inspected, thumbnail=thumbnail, **first)
    compared = [inspected.compared, *(run_in_sandbox(ctx, "check", Compared, **each) for each in others)]
    return collect_outputs(params, ctx, inspected, compared, thumbnail)
