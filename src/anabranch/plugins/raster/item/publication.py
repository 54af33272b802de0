"""What a verified raster is published with: its objects, the facts of its STAC item, and a report."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from anabranch.canonical import JsonObject, canonical, sha256
from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.checks.times import find_wrong_day
from anabranch.plugins.raster.handler_models import (
    Cog,
    ItemParams,
    Report,
    SourceFile,
    Verified,
    VerifiedCog,
    VerifyParams,
)
from anabranch.plugins.raster.models import Band, Compared, Described, Inspected, Kind, Notice, Profile, Validated
from anabranch.plugins.stac import facts
from anabranch.plugins.stac.facts import Output, RasterItem, Render
from anabranch.storage.filenames import make_slug

__all__ = [
    "ASSETS",
    "COG_TYPE",
    "Span",
    "build_item",
    "collect_outputs",
    "describe_band",
    "describe_item",
    "find_span",
    "name_cog",
    "name_item",
    "publish_verified",
    "put_output",
    "slug",
]

COG_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
ASSETS = {Profile.ANALYSIS: "data", Profile.VISUALIZATION: "visual", Profile.ARCHIVE: "archive"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Span(NamedTuple):
    """The acquisition time: a moment, or an interval."""

    moment: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None


def collect_outputs(
    params: VerifyParams, ctx: Context, first: Inspected, compared: Sequence[Compared], thumbnail: Path
) -> Verified:
    """Describe the COGs and the item, which shows the first one, and store the report."""
    cogs = [VerifiedCog(**cog.model_dump(), verified=each) for cog, each in zip(params.cogs, compared, strict=True)]
    outputs = [_cog_output(params.raster.name, cog) for cog in params.cogs]
    return publish_verified(params, ctx, first, cogs, outputs, thumbnail)


def publish_verified(
    params: ItemParams,
    ctx: Context,
    first: Inspected,
    cogs: Sequence[VerifiedCog],
    made: Iterable[Output],
    thumbnail: Path,
    complete: Callable[[Report], Report] = lambda report: report,
) -> Verified:
    """Store the thumbnail and the report, which may be completed, and describe the item with all outputs."""
    span, notices = find_span(params.datetime, params.raster, params.modified)
    warnings = (*params.notices, *params.raster.warnings, *notices)
    report = Report(
        source=SourceFile(address=params.source, sha256=params.sha256),
        raster=_without_work_files(params.raster),
        target_crs=params.target_crs,
        cogs=tuple(cogs),
        warnings=warnings,
        software=first.software,
    )
    outputs = (
        *made,
        put_output(ctx, thumbnail, "thumbnail", "image/png"),
        put_output(ctx, _write_report(ctx.scratch / "report.json", complete(report)), "report", "application/json"),
    )
    item = describe_item(params, first, span, outputs)
    return Verified(outputs=outputs, item=item, warnings=warnings, report=outputs[-1].href)


def _without_work_files(raster: Validated) -> Validated:
    """The facts for readers: the copy in the work area is removed after the job, and sidecars are listed if used."""
    origin = raster.origin and raster.origin.model_copy(update={"stored": None})
    return raster.model_copy(update={"origin": origin, "sidecars": ()})


def find_span(given: str | None, raster: Validated, modified: datetime) -> tuple[Span, tuple[Notice, ...]]:
    """The acquisition time as given, or from the file or its name; else an interval that ends when it was modified."""
    if given is not None:
        return Span(datetime.fromisoformat(given)), ()
    if raster.times is not None:
        return Span(raster.times.moment, raster.times.start, raster.times.end), ()
    wrong = find_wrong_day(raster.name)
    reason = f": {wrong} in the name is not a day" if wrong else ""
    message = f"The acquisition time is unknown{reason}; set `datetime` to give it."
    return Span(start=EPOCH, end=modified), (Notice(code="raster.no_time", message=message),)


def describe_item(params: ItemParams, cog: Inspected, span: Span, outputs: Sequence[Output]) -> RasterItem:
    """The facts of an item; maps show the first COG, which was inspected."""
    raster, address, versions = params.raster, params.source, params.versions
    sidecars = {each.address: each.sha256 for each in raster.sidecars}
    source = facts.Source(sha256=params.sha256, name=raster.name, address=address, versions=versions, sidecars=sidecars)
    made = build_item(params.item_id or name_item(params), raster.kind, cog, cog.compared.bands, span, outputs, source)
    renders = {"default": _render(raster, cog, ASSETS[params.profiles[0]])}
    return made.model_copy(update={"title": params.title, "renders": renders})


def build_item(
    item: str,
    kind: Kind,
    found: Described | Inspected,
    bands: Sequence[Band],
    span: Span,
    outputs: Sequence[Output],
    source: facts.Source,
) -> RasterItem:
    """The facts of an item that its file, its grid and its times give."""
    grid = found.projection
    return RasterItem(
        id=item,
        kind=kind,
        crs=grid.code,
        projjson=grid.projjson,
        shape=grid.shape,
        transform=grid.transform,
        bounds=grid.bbox,
        bands=[describe_band(band) for band in bands],
        footprint=found.footprint,
        bbox=found.bbox,
        datetime=span.moment,
        start_datetime=span.start,
        end_datetime=span.end,
        outputs=list(outputs),
        source=source,
        software=found.software,
    )


def name_item(params: ItemParams) -> str:
    """The id of an item: the same file with the same options always has the same id, and no other item has it."""
    identity = canonical({  # the keys never change
        "source": params.sha256,
        "kind": params.raster.kind,
        "crs": params.raster.repairs.crs,
        "target_crs": params.target_crs,
        "tiers": list(params.profiles),
        "datetime": params.datetime,
        "title": params.title,
        **({"discrete": True} if params.raster.discrete else {}),
        **_identify_origin(params.raster),
        **({"tiled": True} if params.tiled else {}),
    })  # fmt: skip
    return f"{slug(params.raster.name)}-{sha256(identity)[:10]}"


def _identify_origin(raster: Validated) -> JsonObject:
    """What makes one raster of a file another than the next: the variable, the time, and the sidecars."""
    made = raster.origin
    if made is None:
        return {}
    chosen: JsonObject = {
        "variable": made.variable,
        "time": made.time,
        "sidecars": [sidecar.sha256 for sidecar in made.sidecars],
    }
    return {name: value for name, value in chosen.items() if value}


def name_cog(name: str, profile: Profile, part: str = "", extension: str = "tif") -> str:
    """The published file name of a COG, or of a part of the raster."""
    parts = (slug(name), "" if profile is Profile.ANALYSIS else profile, part, extension)
    return ".".join(filter(None, parts))


def slug(name: str) -> str:
    """The name of a file, without its extension, as it may be used in ids and file names."""
    return make_slug(name) or "raster"


def describe_band(band: Band) -> facts.Band:
    """A band as an item describes it."""
    scaled = (band.scale, band.offset) != (1.0, 0.0)
    return facts.Band.model_validate({
        "name": band.name or f"b{band.index}",
        "data_type": band.dtype,
        "nodata": band.nodata,
        "unit": band.unit or None,
        "scale": band.scale if scaled else None,
        "offset": band.offset if scaled else None,
        "statistics": band.statistics and band.statistics.model_dump(exclude={"exact"}),
    })  # fmt: skip


def _render(raster: Validated, cog: Inspected, asset: str) -> Render:
    """Render hints: three bands as colours, one band by its palette or a colour ramp."""
    classes, stretch = raster.kind is Kind.CATEGORICAL, cog.stretch
    return Render(
        assets=[asset],
        bidx=list(cog.shown),
        rescale=list(stretch) or None,
        resampling="nearest" if classes or raster.discrete else None,
        colormap_name="viridis" if len(stretch) == 1 and not classes else None,
    )


def _cog_output(name: str, cog: Cog) -> Output:
    return Output(
        kind="cog",
        asset=ASSETS[cog.tier],
        name=name_cog(name, cog.tier),
        href=cog.address,
        media_type=COG_TYPE,
        size=cog.size,
        sha256=cog.sha256,
    )


def put_output(ctx: Context, path: Path, kind: str, media_type: str) -> Output:
    """Store a file of the item."""
    put = ctx.storage.put(path, media_type=media_type)
    return Output(
        kind=kind, asset=kind, name=path.name, href=put.address, media_type=media_type, size=put.size, sha256=put.sha256
    )


def _write_report(path: Path, report: Report) -> Path:
    path.write_text(report.model_dump_json(indent=2) + "\n")
    return path
