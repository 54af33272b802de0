"""Handlers on rasters: they fetch and store files, and open untrusted files only in a sandbox."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import Conflict, NotFound
from anabranch.plugins.raster.formats.models import ListParams, TimeSteps
from anabranch.plugins.raster.formats.prepare import (
    fetch_again,
    find_sidecars,
    find_versions,
    pin_with_sidecars,
    prepare,
)
from anabranch.plugins.raster.formats.sources import pin_source
from anabranch.plugins.raster.handler_models import (
    CheckedFile,
    Cog,
    CogParams,
    Cogs,
    CogSource,
    CogsParams,
    Plan,
    ValidateParams,
    Verified,
    VerifyParams,
)
from anabranch.plugins.raster.item.publication import COG_TYPE, collect_outputs, name_cog
from anabranch.plugins.raster.models import Checked, Compared, Inspected, Profile, Written
from anabranch.plugins.raster.plan import is_tiled, plan_work
from anabranch.plugins.raster.request import RasterRequest
from anabranch.plugins.raster.sandbox_calls import run_in_sandbox, sandbox_folder
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.sql_files import read_statements
from anabranch.storage.ranged_object import Ranges

__all__ = [
    "create_cog", "create_cogs", "is_stored", "list_times", "preflight", "require_own_items",
    "store_cog", "validate", "verify",
]  # fmt: skip

QUEUE = "raster"
MAX_SHOWN = 5
SQL = Path(__file__).with_name("statements.sql")


@handler("raster.preflight", queue="files", timeout_seconds=120)
def preflight(params: RasterRequest, ctx: Context) -> Plan:
    """Return the plan for a raster; of the file only the header of a large one is read."""
    require_own_items(params.collection, [params.item_id] if params.item_id else [], ctx)
    found = ctx.storage.stat(params.source)
    plan = plan_work(params, found, ctx.settings(RasterSettings))
    sidecars = tuple(find_sidecars(ctx, params.source, params.sidecars))
    versions = find_versions(ctx, {params.source: found.tag}, sidecars, params.versions)
    pin = None if params.variable or params.time else pin_source(ctx, params.source, found)
    return pin_with_sidecars(ctx, plan.model_copy(update={"versions": versions}), sidecars, pin)


def require_own_items(collection: str, items: Sequence[str], ctx: Context) -> None:
    """Refuse ids of other platforms' items before any work; publishing refuses them, too."""
    if items and (foreign := _ask(ctx, "find_foreign", collection=collection, items=list(items))):
        named = ", ".join(f"{collection}/{item}" for item in foreign[:MAX_SHOWN])
        more = f", and {len(foreign) - MAX_SHOWN} more" if len(foreign) > MAX_SHOWN else ""
        raise Conflict(
            "publication.owner",
            f"item {named} belongs to another platform"
            if len(foreign) == 1
            else f"items of other platforms: {named}{more}",
            remedy="Choose another `item_id`, or omit it.",
        )


def _ask(ctx: Context, query: str, **parameters: str | list[str]) -> Any:  # as the query answers
    with ctx.catalog() as connection:
        ((answer,),) = connection.execute(
            read_statements(SQL)[query].encode(), {"job_id": ctx.job_id, **parameters}
        ).fetchall()
    return answer


@handler("raster.validate", queue=QUEUE, timeout_seconds=3_600)
def validate(params: ValidateParams, ctx: Context) -> CheckedFile:
    """Fetch a raster and check it: format, georeference, pixels, kind; all errors are reported at once."""
    settings = ctx.settings(RasterSettings)
    prepared = prepare(ctx, params.source, params.sha256, params.choice, tag=params.tag, pin=params.pin)
    options = prepared.adapt(params.options)
    found = run_in_sandbox(ctx, "look", Checked, path=prepared.path, options=options, settings=settings)
    checked = prepared.complete(found, ctx.work)
    tiled = is_tiled(checked, params.tiling, settings)
    return CheckedFile(**{**dict(checked), "tiled": tiled}, sha256=prepared.sha256)


@handler("raster.list_times", queue=QUEUE, timeout_seconds=600)
def list_times(params: ListParams, ctx: Context) -> TimeSteps:
    """List the times of a variable of a netCDF, HDF5 or GRIB file."""
    path = ctx.storage.fetch(params.source, params.sha256)
    settings = ctx.settings(RasterSettings)
    return run_in_sandbox(ctx, "list_steps", TimeSteps, source=path, params=params, settings=settings)


@handler("raster.create_cog", queue=QUEUE, timeout_seconds=21_600)
def create_cog(params: CogParams, ctx: Context) -> Cog:
    """Turn one raster into one Cloud-Optimized GeoTIFF; one that an earlier attempt stored is reused."""
    if (done := ctx.resume()) and done.phase == "put":
        cog = Cog.model_validate(done.state)
        if is_stored(ctx, cog.address, cog.size):
            return cog
    cog = store_cog(params, params.tier, ctx)
    ctx.checkpoint("put", cog.model_dump(mode="json"))
    return cog


@handler("raster.create_cogs", queue=QUEUE, timeout_seconds=64_800)
def create_cogs(params: CogsParams, ctx: Context) -> Cogs:
    """Turn one raster into a Cloud-Optimized GeoTIFF for each profile; those of an earlier attempt are reused."""
    done = ctx.resume()
    known = Cogs.model_validate(done.state).cogs if done else ()
    stored = {cog.tier: cog for cog in known if is_stored(ctx, cog.address, cog.size)}
    for profile in params.tiers:
        if profile not in stored:
            stored[profile] = store_cog(params, profile, ctx)
            ctx.checkpoint("put", Cogs(cogs=tuple(stored.values())).model_dump(mode="json"))
    return Cogs(cogs=tuple(stored[profile] for profile in params.tiers))


def store_cog(params: CogSource, profile: Profile, ctx: Context) -> Cog:
    """Write the COG of a profile, and store it."""
    source = fetch_again(ctx, params)
    target = sandbox_folder(ctx) / "cog.tif"
    options = params.options(profile, ctx.settings(RasterSettings).raster_memory_mb)
    run_in_sandbox(ctx, "write", Written, source=source, target=target, options=options)
    output = ctx.storage.put(target, name=name_cog(params.raster.name, profile), media_type=COG_TYPE)
    return Cog(tier=profile, address=output.address, size=output.size, sha256=output.sha256)


def is_stored(ctx: Context, address: str, size: int) -> bool:
    """Whether the object of an earlier attempt still exists, with its full size."""
    try:
        return ctx.storage.stat(address).size == size
    except NotFound:
        return False


@handler("raster.verify", queue=QUEUE, timeout_seconds=7_200)
def verify(params: VerifyParams, ctx: Context) -> Verified:
    """Compare the COGs with their source, pixel by pixel where nothing was resampled, and collect the outputs."""
    source = fetch_again(ctx, params)
    paths = [ctx.storage.fetch(cog.address, cog.sha256) for cog in params.cogs]
    memory, thumbnail = ctx.settings(RasterSettings).raster_memory_mb, sandbox_folder(ctx) / "thumbnail.png"
    first, *others = (
        dict[str, BaseModel | Path | Ranges](source=source, path=path, options=params.options(cog.tier, memory))
        for cog, path in zip(params.cogs, paths, strict=True)
    )
    inspected = run_in_sandbox(ctx, "inspect", Inspected, thumbnail=thumbnail, **first)
    compared = [inspected.compared, *(run_in_sandbox(ctx, "check", Compared, **each) for each in others)]
    return collect_outputs(params, ctx, inspected, compared, thumbnail)
