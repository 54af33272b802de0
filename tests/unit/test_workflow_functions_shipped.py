"""Workflows that are shipped as YAML, written as functions: the definitions are the same."""

from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest

from anabranch import Input, choose, end, expr, gate, item, task, wait, workflow, workflow_named
from anabranch.engine.registry import Registry, load_plugins
from anabranch.plugins.demo.handlers import chunk_processor, echo, list_items, size_check, sleep
from anabranch.plugins.demo.handlers import multi_phase as work_in_phases
from anabranch.plugins.h3.handlers import (
    cascade_descendants,
    finish_grid,
    finish_statistics,
    measure_cells,
    plan_grid,
    plan_statistics,
)
from anabranch.plugins.raster.collections.handlers import (
    check_rasters,
    collect_rasters,
    compare_rasters,
    convert_rasters,
    plan_collection,
    refuse_rasters,
)
from anabranch.plugins.raster.handlers import create_cogs, list_times, preflight, validate, verify
from anabranch.plugins.raster.item.in_place import describe_files
from anabranch.plugins.raster.tiles.handlers import generate_tiling_scheme, process_tile, verify_mosaic
from anabranch.plugins.stac.actions import unpublish_item
from anabranch.plugins.stac.handlers import register_items
from anabranch.plugins.stac.ingest.handlers import load_items, read_items, validate_items
from anabranch.plugins.storage.handlers import list_files, stage
from anabranch.plugins.storage.inventory import analyse_files, total_inventory
from anabranch.plugins.storage.sync.handlers import compare_content, compare_folder, report_sync
from anabranch.plugins.vector.collections.handlers import check_files, clean_file, finish_file, plan_files, refuse_files
from anabranch.plugins.vector.exports.handlers import export_layer, show_layer
from anabranch.plugins.vector.handlers import load_chunk
from anabranch.plugins.zonal.handlers import finish, measure, plan
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import EndNode
from anabranch.workflows.python import WorkflowFunction

# ruff: noqa: E712, FBT  # conditions are expressions, and `== False` is one


@workflow("approve")
def approve(item: str = "map") -> Any:
    """Prepare something, ask for approval, then publish it or put it aside."""
    prepare = echo.options(name="prepare")(item=item)
    review = gate("review", timeout_seconds=604800, after=prepare)
    publish = echo.options(name="publish")(item=prepare["item"])
    put_aside = echo.options(name="put_aside")(why=expr.default(review.why, "no reason was given"))
    choose(expr.default(review.approved, False), publish, put_aside, name="decide")
    return {"published": expr.optional(publish["item"]), "put_aside": expr.optional(put_aside["why"])}


@workflow("diamond")
def diamond(text: str = "anabranch") -> Any:
    """Work on two sides at once and join them."""
    top = echo.options(name="top")(text=text)
    left = echo.options(name="left")(text=expr.upper(top["text"]))
    right = echo.options(name="right")(length=expr.length(top["text"]))
    join = echo.options(name="join")(text=f"{left['text']} has {right['length']} letters")
    return {"text": join["text"]}


@workflow("echo")
def echo_message(message: str = "Hello") -> Any:
    """Give back a message."""
    return {"message": echo(message=message, job=expr.job_id)["message"]}


@workflow("multi_phase")
def multi_phase(
    phases: Annotated[int, Input(minimum=1, maximum=1000)] = 3,
    seconds: Annotated[float, Input(minimum=0, maximum=3600)] = 0.1,
) -> Any:
    """Work in phases, each a checkpoint to go on from."""
    work_in_phases(phases=phases, seconds=seconds, name="work")


@workflow("nested")
def nested(groups: list[int] = [2, 0, 3]) -> Any:  # noqa: B006  # read once
    """Expand groups into parts, and work on every part."""
    parts = list_items.map(groups, name="expand").fold({"all": {"concat": "items"}}, name="parts")
    work = chunk_processor.map(parts.all, name="work", batch_size=2, concurrency=4)
    total = work.fold({"weight": {"sum": "weight"}, "parts": {"sum": "items"}}, name="total")
    return {"parts": total.parts, "batches": total.count}


@workflow("pause")
def pause(text: str = "hello", seconds: Annotated[float, Input(minimum=0, maximum=3600)] = 1) -> Any:
    """Say something, rest, and say it again."""
    first = echo.options(name="first")(text=text)
    rest = wait(seconds=seconds, name="rest", after=first)
    again = echo.options(name="again", after=rest)(text=f"{first['text']}, again")
    return {"text": again["text"]}


@workflow("route_by_size")
def route_by_size(size_mb: Annotated[float, Input(minimum=0)] = 10) -> Any:
    """Take the light or the heavy way, by size."""
    check: Any = size_check(size_mb=size_mb, name="check")
    light = echo.options(name="light")(way="light")
    heavy = sleep(seconds=0.2, name="heavy")
    choose(check["size_mb"] < 100, light, heavy, name="route")
    report = echo.options(name="report")(way=expr.default(light["way"], "heavy"), is_large=check["is_large"])
    return {"way": report["way"], "is_large": report["is_large"]}


@workflow("weigh")
def weigh(count: Annotated[int, Input(minimum=0, maximum=1000000)] = 20, factor: float = 2) -> Any:
    """Weigh many items one by one and sum them up."""
    found = list_items(count=count, name="find")
    each = chunk_processor.map(found["items"], name="each", factor=factor)
    total = each.fold({"weight": {"sum": "weight"}, "heaviest": {"last": "weight"}}, name="total")
    return {"items": total.count, "weight": total.weight}


@workflow("weigh_lots")
def weigh_lots(lots: list[int] = [3, 5, 8]) -> Any:  # noqa: B006  # read once
    """Weigh several lots, each by a job of its own."""
    each = workflow_named("weigh").options(name="each", concurrency=2).map(lots, count=item)
    total = each.fold({"weight": {"sum": "weight"}, "items": {"sum": "items"}}, name="total")
    return {"lots": total.count, "items": total.items, "weight": total.weight}


Line = Annotated[str, Input(format="line")]


FOUND = (
    "count", "total_bytes", "more", "extensions", "sizes", "kinds", "largest", "newest", "failed", "failures", "noted",
    "notes", "proposed", "proposals", "outputs",
)  # fmt: skip


@workflow("list_container", name="List a container", version=2, rerun=True)
def list_container(
    folder: Annotated[
        Line, Input(description="The folder, like bronze://delivery, or bronze:// for the whole container.")
    ],
    extensions: Annotated[
        list[Any], Input(maximum=100, description="Only files with these extensions, like [tif, jp2].")
    ] = [],  # noqa: B006  # read once
    min_bytes: Annotated[int, Input(minimum=0, description="Only files of at least this size.")] = 0,
    max_bytes: Annotated[int, Input(minimum=0, description="Only files of at most this size.")] | None = None,
    limit: Annotated[int, Input(minimum=1, maximum=50_000, description="The most files that are listed.")] = 10_000,
    geospatial: Annotated[
        bool,
        Input(
            description="Whether to read the first bytes of each file, classify it,"
            " and group sidecars with their main files."
        ),
    ] = False,
) -> Any:
    """List the files below a folder of a tier, count them by extension and size, and propose what can be published."""
    chosen: Any = {"extensions": extensions, "min_bytes": min_bytes, "max_bytes": max_bytes, "limit": limit}
    listed = list_files(folder=folder, **chosen, name="list")
    analysed = analyse_files.map(listed.files, name="analyse", batch_size=500, files=item, geospatial=geospatial)
    parts = analysed.fold({"parts": {"collect": "part"}}, name="all").parts
    totals: Any = total_inventory(parts=parts, geospatial=geospatial, more=listed.more, name="totals")
    return {name: totals[name] for name in FOUND}


INGESTED = (
    "read", "collections", "accepted", "changed", "unchanged", "duplicates", "refused", "refusals", "warnings",
    "outputs", "report",
)  # fmt: skip


@workflow("stac_ingest", name="Ingest STAC")
def stac_ingest(
    source: Annotated[
        Line,
        Input(
            description="The address of a JSON, NDJSON or GeoParquet file or of a static catalog's root;"
            " or a folder, like bronze://items/ with a slash at its end."
        ),
    ],
    collection: Annotated[
        Line, Input(description="The collection that all items join; without it each one joins its own.")
    ]
    | None = None,
    base_url: Annotated[
        Line,
        Input(
            description="The URL of the folder of the source, which relative addresses of assets are resolved against."
        ),
    ]
    | None = None,
    unknown_extensions: Annotated[
        Literal["accept", "refuse"],
        Input(description="What to do with items that declare extensions whose schemas are not known here."),
    ] = "accept",
    reason: Annotated[
        str, Input(maximum=1000, description="Why they are published; stored in the history of each item.")
    ]
    | None = None,
    dry_run: Annotated[bool, Input(description="Whether to check everything and publish nothing.")] = False,
) -> Any:
    """Read STAC items and collections from a file, a folder or a static catalog, check each one, and publish them."""
    given: Any = {"source": source, "collection": collection, "base_url": base_url}
    found = read_items(**given, name="read")
    treated: Any = {**given, "part": item, "unknown_extensions": unknown_extensions}
    parts = validate_items.map(found.parts, name="validate", **treated).fold({"parts": {"collect": "part"}}, name="all")
    rest: Any = {"collection": collection, "read": found.read, "refused": found.refused, "reason": reason}
    loaded: Any = load_items(parts=parts.parts, **rest, dry_run=dry_run, name="load")
    return {name: loaded[name] for name in INGESTED}


ANSWER = {
    "approved": Annotated[bool, Input(description="Whether it is published.")],
    "why": Annotated[str | None, Input(description="The reason.")],
}


def review_first(approval: bool, after: Any, what: str) -> tuple[Any, Any]:
    """A review if it is asked for, after which nothing is published if it is rejected; and where both ways go on."""
    said = f"A person looks at the report, and approves or rejects {what}."
    review: Any = gate("review", timeout_seconds=2592000, answer=ANSWER, description=said)
    decide = choose(review.approved == True, None, end("put_aside"), name="decide")
    return review, [choose(approval, decide, None, name="route", after=after), decide]


@workflow("process_raster", name="Publish a raster", version=7)
def process_raster(
    source: Annotated[
        str, Input(format="address", description="The address of the file, like bronze://uploads/…/dem.tif.")
    ],
    collection: Annotated[Line, Input(description="The STAC collection that the item joins.")] = "process_raster",
    item_id: Annotated[
        Line,
        Input(
            description="The id of the item; new content for the same id replaces it."
            " Without it, the id follows from file and options."
        ),
    ]
    | None = None,
    variable: Annotated[
        Line,
        Input(
            maximum=200,
            description="The variable of a netCDF, HDF5 or GRIB file that has several; an error lists them.",
        ),
    ]
    | None = None,
    time: Annotated[
        Line,
        Input(
            maximum=200,
            description="The time of a variable that has several, like 2026-03-21T10:15:00Z,"
            " or all for a band for each.",
        ),
    ]
    | None = None,
    sidecars: Annotated[
        list[Any],
        Input(
            maximum=4,
            description="The addresses of files that belong to the raster: a world file, .prj, .msk or .aux.xml.",
        ),
    ] = [],  # noqa: B006  # read once
    versions: Annotated[
        dict[str, Any],
        Input(
            description="The versions (ETags) of the source and its sidecars by address, as they were listed;"
            " if one is another by now, the job fails with source.changed."
        ),
    ]
    | None = None,
    expected: Annotated[
        int,
        Input(
            minimum=0,
            description="The number of the item's publication that was seen last, 0 for none;"
            " another one is a conflict.",
        ),
    ]
    | None = None,
    input_crs: Annotated[Line, Input(description="The CRS of a file that has none, like EPSG:25832.")] | None = None,
    target_crs: Annotated[Line, Input(description="The CRS to publish in; without it the source's is kept.")]
    | None = None,
    raster_type: Annotated[Line, Input(description="What the raster shows, where its pixels don't say; see the kinds.")]
    | None = None,
    profile: Annotated[
        Literal["analysis", "visualization", "archive", "all"],
        Input(description="What the COG is for; by default analysis."),
    ]
    | None = None,
    tier: Annotated[
        Literal["analysis", "visualization", "archive", "all"], Input(description="The earlier name of profile.")
    ]
    | None = None,
    tiling: Annotated[
        Literal["auto", "never", "always"],
        Input(
            description="Whether the raster becomes tiles, which readers see as one: if it is large (auto),"
            " or in any case (always)."
        ),
    ] = "auto",
    tile_items: Annotated[
        bool,
        Input(description="Whether each tile of a raster in tiles becomes an item instead of all of them together."),
    ] = False,
    datetime: Annotated[Line, Input(description="The acquisition time, in RFC 3339, where the file does not say.")]
    | None = None,
    title: Annotated[Line, Input(maximum=200, description="The title of the item.")] | None = None,
    reason: Annotated[
        str, Input(maximum=1000, description="Why it is published, or replaced; stored in the item's history.")
    ]
    | None = None,
    approval: Annotated[bool, Input(description="Whether a person must approve it before it is published.")] = False,
    dry_run: Annotated[bool, Input(description="Whether to stop after the preflight and show the plan.")] = False,
) -> Any:
    """Check a raster, turn it into a Cloud-Optimized GeoTIFF, verify that against the source, and publish it as a STAC item."""  # noqa: E501  # as the file has it
    about: Any = {"input_crs": input_crs, "target_crs": target_crs, "raster_type": raster_type}
    chosen: Any = {"variable": variable, "time": time}
    planned = preflight(
        source=source,
        collection=collection,
        item_id=item_id,
        **about,
        profile=profile,
        tier=tier,
        tiling=tiling,
        tile_items=tile_items,
        datetime=datetime,
        **chosen,
        sidecars=sidecars,
        versions=versions,
    )
    checked = validate(
        source=source,
        tag=planned.tag,
        pin=planned.pin,
        **about,
        profile=expr.default(tier, profile),
        tiling=tiling,
        **chosen,
        sidecars=planned.sidecars,
        when=dry_run == False,
    )
    file: Any = {"source": source, "sha256": checked.sha256, "pin": planned.pin, "raster": checked.raster}
    cogs = create_cogs.options(name="cogs")(**file, tiers=checked.tiers, target_crs=target_crs)
    described: Any = {
        "target_crs": target_crs,
        "item_id": item_id,
        "title": title,
        "datetime": planned.datetime,
        "modified": planned.modified,
        "versions": planned.versions,
        "notices": planned.warnings,
    }
    verified = verify(**file, cogs=cogs.cogs, **described)
    scheme = generate_tiling_scheme.options(name="scheme")(**file, tiers=checked.tiers, target_crs=target_crs)
    tiles = process_tile.map(
        scheme.tiles,
        name="tiles",
        **file,
        tile=item,
        overviews=scheme.grid.overviews,
        tile_items=tile_items,
        target_crs=target_crs,
    )
    mosaic = verify_mosaic.options(name="mosaic")(
        **file, scheme=scheme, tiles=tiles.items, tile_items=tile_items, **described
    )
    made = choose(checked.tiled, mosaic, verified, name="size")
    said = "A person looks at the outputs, and approves or rejects them."
    review = gate("review", timeout_seconds=2592000, answer=ANSWER, description=said)
    decide = choose(review.approved == True, None, end("put_aside"), name="decide")
    route = choose(approval, decide, None, name="route", after=made)
    publishing: Any = {"collection": collection, "item": made["item"], "reason": reason, "expected": expected}
    publishing |= {"create_collection": True, "files": expr.default(mosaic.tile_items, [])}
    publish = task("stac.register_item").options(name="publish", after_any=[route, decide])(**publishing)
    return {
        "outputs": expr.default(made.outputs, []),
        "items": expr.default(publish.items, []),
        "warnings": expr.default(made.warnings, planned.warnings),
        "report": expr.optional(made.report),
        "approved": expr.optional(review.approved),
        "why": expr.optional(review.why),
        "plan": planned,
    }


FAILURE = ("code", "message", "remedy")


@workflow("process_raster_collection", name="Publish a collection of rasters", version=2)
def process_raster_collection(
    collection: Annotated[Line, Input(description="The STAC collection that the items join.")],
    sources: Annotated[
        list[Any],
        Input(maximum=10_000, description="The addresses of the files, or objects with source and item_id."),
    ] = [],  # noqa: B006  # read once
    source_list: Annotated[
        str,
        Input(
            format="address",
            description="The address of a file with a line of JSON for each raster,"
            " like the submissions of list_container.",
        ),
    ]
    | None = None,
    folder: Annotated[
        Line, Input(description="The folder whose rasters are published, with those of the folders below it.")
    ]
    | None = None,
    extensions: Annotated[
        list[Any], Input(maximum=100, description="Of a folder only files with these extensions, like [tif, jp2].")
    ] = [],  # noqa: B006  # read once
    title: Annotated[Line, Input(maximum=200, description="The title of the collection.")] | None = None,
    description: Annotated[str, Input(minimum=1, maximum=5000, description="The description of the collection.")]
    | None = None,
    input_crs: Annotated[Line, Input(description="The CRS of files that have none, like EPSG:25832.")] | None = None,
    target_crs: Annotated[Line, Input(description="The CRS to publish in; without it the sources' is kept.")]
    | None = None,
    raster_type: Annotated[
        Line, Input(description="What the rasters show, where their pixels don't say; see the kinds.")
    ]
    | None = None,
    profile: Annotated[
        Literal["analysis", "visualization", "archive", "all"], Input(description="What the COGs are for.")
    ] = "analysis",
    datetime: Annotated[
        Line, Input(description="The acquisition time of all of them, in RFC 3339, where the files don't say.")
    ]
    | None = None,
    allow_mixed: Annotated[
        bool, Input(description="Whether rasters may differ in bands, data type, CRS, pixel size or kind.")
    ] = False,
    reason: Annotated[
        str, Input(maximum=1000, description="Why they are published, or replaced; stored in the items' history.")
    ]
    | None = None,
    approval: Annotated[
        bool, Input(description="Whether a person must approve the set before it is published.")
    ] = False,
    dry_run: Annotated[bool, Input(description="Whether to stop after the preflight and show the plan.")] = False,
) -> Any:
    """Check many rasters, compare them with each other, turn each into a Cloud-Optimized GeoTIFF, verify that against its source, and publish all of them together."""  # noqa: E501  # as the file has it
    about: Any = {"input_crs": input_crs, "target_crs": target_crs, "raster_type": raster_type, "profile": profile}
    options: Any = {"collection": collection, **about, "datetime": datetime}
    files: Any = {"sources": sources, "source_list": source_list, "folder": folder, "extensions": extensions}
    planned: Any = plan_collection.options(name="preflight")(**options, **files)
    check = check_rasters.map(planned.batches, name="check", when=dry_run == False, files=item, **options)
    checked = check.fold({"parts": {"collect": "part"}}, name="all_checked")
    common: Any = {"collection": collection, "allow_mixed": allow_mixed}
    compared: Any = compare_rasters.options(name="compare")(parts=checked.parts, **common)
    refuse = refuse_rasters.options(name="refuse")(**{name: compared.failure[name] for name in FAILURE})
    folds = {"parts": {"collect": "part"}, "items": {"collect": "items"}}
    said = "A person looks at the report and the outputs, and approves or rejects the whole set."
    into: Any = {"collection": collection, "reason": reason, "title": title, "description": description}
    made: dict[str, Any] = {}

    def go_on() -> Any:
        convert = convert_rasters.map(checked.parts, name="convert", part=item, target_crs=target_crs)
        converted = convert.fold(folds, name="all_converted")
        collected: Any = collect_rasters.options(name="collect")(parts=converted.parts, **common)
        failed = {name: collected.failure[name] for name in FAILURE}
        report_failures = refuse_rasters.options(name="report_failures")(**failed)
        review = gate("review", timeout_seconds=2592000, answer=ANSWER, description=said)
        decide = choose(review.approved == True, None, end("put_aside"), name="decide")
        route = choose(approval, decide, None, name="route")
        choose(collected.accepted == True, route, report_failures, name="complete")
        publish = task("stac.register_items").options(name="publish", after_any=[route, decide])(
            **into, files=converted["items"], create_collection=True, keep_same=True
        )
        made.update(collected=collected, review=review, publish=publish)
        return publish

    choose(compared.accepted == True, go_on, refuse, name="alike")
    collected, review, publish = made["collected"], made["review"], made["publish"]
    plan = {name: planned[name] for name in ("count", "total_bytes", "items", "failed", "failures")}
    return {
        "outputs": expr.default(collected.outputs, []),
        "items": expr.default(publish["items"], []),
        "changed": expr.default(publish["changed"], 0),
        "warnings": expr.default(collected.warnings, []),
        "report": expr.optional(collected.report),
        "approved": expr.optional(review.approved),
        "why": expr.optional(review.why),
        "plan": plan,
    }


@workflow("process_raster_times", name="Publish each time of a variable", version=2)
def process_raster_times(
    source: Annotated[
        str, Input(format="address", description="The address of the file, like bronze://uploads/…/era5.nc.")
    ],
    variable: Annotated[
        Line, Input(maximum=200, description="The variable, where the file has several; an error lists them.")
    ]
    | None = None,
    collection: Annotated[Line, Input(description="The STAC collection that the items join.")] = "process_raster",
    input_crs: Annotated[Line, Input(description="The CRS of a file that has none, like EPSG:25832.")] | None = None,
    target_crs: Annotated[Line, Input(description="The CRS to publish in; without it the source's is kept.")]
    | None = None,
    raster_type: Annotated[Line, Input(description="What the raster shows, where its pixels don't say; see the kinds.")]
    | None = None,
    approval: Annotated[
        bool, Input(description="Whether a person must approve each item before it is published.")
    ] = False,
) -> Any:
    """List the times of a variable of a netCDF, HDF5 or GRIB file, and publish each as a STAC item by a job of process_raster."""  # noqa: E501  # as the file has it
    staged = stage(source=source)
    listed = list_times.options(name="times")(source=source, sha256=staged.sha256, variable=variable)
    about: Any = {"input_crs": input_crs, "target_crs": target_crs, "raster_type": raster_type, "approval": approval}
    same: Any = {"source": source, "versions": staged.versions}
    each = (
        workflow_named("process_raster")
        .options(name="each", concurrency=8)
        .map(listed.times, **same, variable=listed.variable, time=item, collection=collection, **about)
    )
    folds = {name: {"concat": name} for name in ("outputs", "items", "warnings")}
    every = each.fold(folds, name="all")
    return {"times": listed.times, "outputs": every.outputs, "items": every.items, "warnings": every.warnings}


IN_PLACE = ["tif", "tiff", "gtiff", "gtif", "btf", "jp2", "j2k"]


@workflow("stac_catalog_container", name="Catalog a container", rerun=True)
def stac_catalog_container(
    folder: Annotated[
        Line, Input(description="The folder, like bronze://archive, or bronze:// for the whole container.")
    ],
    collection: Annotated[Line, Input(description="The STAC collection that the items join.")],
    extensions: Annotated[
        list[Any], Input(minimum=1, maximum=100, description="Only files with these extensions.")
    ] = IN_PLACE,
    limit: Annotated[
        int,
        Input(
            minimum=1,
            maximum=50_000,
            description="The most files that are cataloged; the others are left for the next run.",
        ),
    ] = 10_000,
    dry_run: Annotated[bool, Input(description="Whether to compare only and publish nothing.")] = False,
) -> Any:
    """Read the metadata of the rasters below a folder where they lie, and publish an item of each that is new or has changed; no file is copied."""  # noqa: E501  # as the file has it
    named: Any = {"folder": folder, "extensions": extensions, "limit": limit}
    compared = compare_folder.options(name="compare")(**named, collection=collection, dry_run=dry_run)
    read = describe_files.map(compared.files, name="read", batch_size=50, files=item)
    all_read: Any = read.fold({"parts": {"collect": "part"}, "failures": {"concat": "failures"}}, name="all_read")
    how: Any = {"collection": collection, "reason": f"Cataloged in {folder}", "create_collection": True}
    published = register_items.map(all_read.parts, name="publish", files=[item], **how)
    items = published.fold({"items": {"collect": "items"}}, name="all").items
    made: Any = report_sync.options(name="report")(
        collection=collection, part=compared.part, items=items, failures=all_read.failures, dry_run=dry_run
    )
    return {name: made[name] for name in ("counts", "files", "items", "outputs")}


@workflow("sync_folder", name="Synchronize a folder", version=2, rerun=True)
def sync_folder(
    folder: Annotated[
        Line, Input(description="The folder, like bronze://delivery, or bronze:// for the whole container.")
    ],
    collection: Annotated[Line, Input(description="The STAC collection that the items join.")],
    extensions: Annotated[
        list[Any],
        Input(
            maximum=100,
            description="Only files with these extensions, like [tif, jp2]; by default those of raster formats.",
        ),
    ] = [],  # noqa: B006  # read once
    input_crs: Annotated[Line, Input(description="The CRS of files that have none, like EPSG:25832.")] | None = None,
    target_crs: Annotated[Line, Input(description="The CRS to publish in; without it the source's is kept.")]
    | None = None,
    raster_type: Annotated[
        Line, Input(description="What the rasters show, where their pixels don't say; see the kinds.")
    ]
    | None = None,
    variable: Annotated[
        Line, Input(maximum=200, description="The variable of netCDF, HDF5 or GRIB files that have several.")
    ]
    | None = None,
    time: Annotated[
        Line, Input(maximum=200, description="The time of a variable that has several, or all for a band for each.")
    ]
    | None = None,
    profile: Annotated[
        Literal["analysis", "visualization", "archive", "all"], Input(description="What the COGs are for.")
    ] = "analysis",
    tiling: Annotated[
        Literal["auto", "never", "always"],
        Input(
            description="Whether rasters become tiles, which readers see as one: if they are large (auto),"
            " or in any case (always)."
        ),
    ] = "auto",
    approval: Annotated[
        bool, Input(description="Whether a person must approve each item before it is published.")
    ] = False,
    limit: Annotated[
        int,
        Input(
            minimum=1,
            maximum=50_000,
            description="The most files that are published; the others are left for the next run.",
        ),
    ] = 10_000,
    dry_run: Annotated[bool, Input(description="Whether to compare only and publish nothing.")] = False,
) -> Any:
    """Publish the rasters below a folder that are new or have changed, each by a job of process_raster, and report the items whose file has vanished."""  # noqa: E501  # as the file has it
    named: Any = {"folder": folder, "extensions": extensions, "limit": limit}
    compared = compare_folder.options(name="compare")(**named, collection=collection)
    checked = compare_content.map(
        compared.files, name="check", batch_size=20, collection=collection, files=item, dry_run=dry_run
    )
    all_checked: Any = checked.fold({"files": {"concat": "files"}, "same": {"concat": "same"}}, name="all_checked")
    about: Any = {"input_crs": input_crs, "target_crs": target_crs, "raster_type": raster_type, "variable": variable}
    options: Any = {**about, "time": time, "profile": profile, "tiling": tiling, "approval": approval}
    each = (
        workflow_named("process_raster")
        .options(name="publish", concurrency=8, on_failure="continue")
        .map(
            all_checked.files,
            source=item.address,
            versions=item.versions,
            collection=collection,
            item_id=item.item,
            expected=item.expected,
            **options,
            reason=f"Synchronized with {folder}",
        )
    )
    items = each.fold({"items": {"collect": "items"}}, name="all").items
    made: Any = report_sync.options(name="report")(
        collection=collection, part=compared.part, items=items, same=all_checked.same, dry_run=dry_run
    )
    return {name: made[name] for name in ("counts", "files", "items", "outputs")}


@workflow("unpublish_raster", name="Unpublish a raster", version=1)
def unpublish_raster(
    collection: Annotated[Line, Input(description="The STAC collection of the item.")],
    item_id: Annotated[Line, Input(description="The id of the item.")],
    reason: Annotated[str, Input(maximum=1000, description="Why it is withdrawn; stored in the item's history.")],
    expected: Annotated[
        int,
        Input(minimum=1, description="The number of the publication that was seen last; another one is a conflict."),
    ]
    | None = None,
    dry_run: Annotated[bool, Input(description="Whether to show the inventory and change nothing.")] = True,
    confirm: Annotated[bool, Input(description="Must be true, unless it is a dry run.")] = False,
) -> Any:
    """Show what a published item consists of, and withdraw it from its readers once that is confirmed; it can be restored for a while."""  # noqa: E501  # as the file has it
    named: Any = {"collection": collection, "item": item_id, "reason": reason}
    inventory = unpublish_item.options(name="inventory")(**named, expected=expected, dry_run=True)
    last: Any = inventory.number - 1
    withdraw = unpublish_item.options(name="withdraw", when=dry_run == False)(
        **named, expected=last, dry_run=False, confirm=confirm
    )
    return {"inventory": inventory, "withdrawn": expr.optional(withdraw)}


EACH = item  # where an input has that name
MEASURED = (
    "count, sum, mean, min, max, stdev, variance, median, majority, minority, variety, p05, p10, p25, p75, p90, p95"
)
RasterCollection = Annotated[Line, Input(description="The STAC collection of the raster.")]
RasterId = Annotated[Line, Input(description="The id of the raster's item.")]
AssetName = Annotated[Line, Input(maximum=63, description="The asset of the item: a COG, or a mosaic of tiles.")]
BandNumber = Annotated[int, Input(minimum=1, description="The number of the band.")]
Statistics = Annotated[list[Any], Input(minimum=1, maximum=17, description=f"What is computed: {MEASURED}.")]
Title = Annotated[Line, Input(maximum=200, description="The title of the item.")]
Why = Annotated[str, Input(maximum=1000, description="Why it is published, or replaced; stored in the item's history.")]
Approval = Annotated[bool, Input(description="Whether a person must approve it before it is published.")]
DEFAULT_STATISTICS: Any = ["count", "sum", "mean", "min", "max", "stdev"]


@workflow("zonal_stats", name="Zonal statistics", version=2)
def zonal_stats(
    layer: Annotated[
        Line, Input(maximum=63, description="The name of the published layer of polygons, in schema geo.")
    ],
    collection: RasterCollection,
    item: RasterId,
    asset: AssetName = "data",
    band: BandNumber = 1,
    statistics: Statistics = DEFAULT_STATISTICS,
    table: Annotated[
        Line,
        Input(
            description="The name of the layer with the statistics; without it, those of the layer and the item."
            " A layer of this name is replaced."
        ),
    ]
    | None = None,
    result_collection: Annotated[
        Line, Input(description="The STAC collection that the statistics join.")
    ] = "zonal_stats",
    title: Title | None = None,
    reason: Why | None = None,
    approval: Approval = False,
) -> Any:
    """Compute statistics of a published raster in the polygons of a published layer, by exact fractions of pixels, and publish them as a layer."""  # noqa: E501  # as the file has it
    asked: Any = {"collection": collection, "item": item, "asset": asset, "band": band, "statistics": statistics}
    named: Any = {"table": table, "result_collection": result_collection, "title": title}
    planned = plan.options(name="plan")(layer=layer, **asked, **named)
    parts = measure.map(planned.ranges, name="measure", work=planned.work, range=EACH).fold(name="all")
    done: Any = finish.options(name="finish")(work=planned.work, parts=parts["items"])
    review, ways = review_first(approval, done, "the statistics")
    published: Any = register_items.options(name="publish", after_any=ways)(
        collection=result_collection, items=done["items"], reason=reason, create_collection=True
    )
    return {
        "outputs": done.outputs, "items": expr.default(published["items"], []), "warnings": done.warnings,
        "report": done.report, "approved": expr.optional(review.approved), "why": expr.optional(review.why),
    }  # fmt: skip


Resolution = Annotated[int, Input(minimum=0, maximum=15, description="The resolution of the cells.")]


@workflow("h3_raster_stats", name="H3 raster statistics", version=2)
def h3_raster_stats(
    collection: RasterCollection,
    item: RasterId,
    resolution: Resolution,
    asset: AssetName = "data",
    band: BandNumber = 1,
    statistics: Statistics = DEFAULT_STATISTICS,
    table: Annotated[
        Line,
        Input(
            description="The name of the layer, in schema geo; without it, that of the item with the resolution."
            " A layer of this name is replaced."
        ),
    ]
    | None = None,
    result_collection: Annotated[Line, Input(description="The STAC collection that the statistics join.")] = "h3_stats",
    title: Title | None = None,
    reason: Why | None = None,
    approval: Approval = False,
) -> Any:
    """Compute statistics of a published raster in the H3 cells of a resolution, by exact fractions of pixels, and publish them as a layer."""  # noqa: E501  # as the file has it
    asked: Any = {"collection": collection, "item": item, "asset": asset, "band": band, "statistics": statistics}
    named: Any = {"table": table, "result_collection": result_collection, "title": title}
    planned = plan_statistics.options(name="plan")(resolution=resolution, **asked, **named)
    parts = measure_cells.map(planned.parts, name="measure", work=planned.work, part=EACH).fold(name="all")
    done: Any = finish_statistics.options(name="finish")(work=planned.work, parts=parts["items"])
    review, ways = review_first(approval, done, "the statistics")
    published: Any = register_items.options(name="publish", after_any=ways)(
        collection=result_collection, items=done["items"], reason=reason, create_collection=True
    )
    return {
        "outputs": done.outputs, "items": expr.default(published["items"], []), "report": done.report,
        "approved": expr.optional(review.approved), "why": expr.optional(review.why),
    }  # fmt: skip


@workflow("h3_grid", name="H3 grid", version=2)
def h3_grid(
    resolution: Annotated[
        int,
        Input(minimum=0, maximum=15, description="The resolution of the cells, from 0 (4,000,000 km2) to 15 (1 m2)."),
    ],
    table: Annotated[
        Line, Input(description="The name of the layer, in schema geo. A layer of this name is replaced.")
    ],
    bbox: Annotated[
        list[Any],
        Input(
            minimum=4,
            maximum=4,
            description="West, south, east and north in degrees; west is greater than east across 180 degrees.",
        ),
    ]
    | None = None,
    polygon: Annotated[
        dict[str, Any], Input(description="A GeoJSON Polygon or MultiPolygon, split at the antimeridian.")
    ]
    | None = None,
    layer: Annotated[
        Line, Input(maximum=63, description="The name of a published layer of polygons, like that of countries.")
    ]
    | None = None,
    gid: Annotated[int, Input(description="The gid of one feature of the layer; without it, all of the layer.")]
    | None = None,
    collection: Annotated[Line, Input(description="The STAC collection that the grid joins.")] = "h3_grids",
    title: Title | None = None,
    reason: Why | None = None,
    approval: Approval = False,
) -> Any:
    """Make the H3 cells of a resolution whose centres are in a box, a polygon or a published layer, and publish them as a layer."""  # noqa: E501  # as the file has it
    area: Any = {"bbox": bbox, "polygon": polygon, "layer": layer, "gid": gid}
    named: Any = {"table": table, "collection": collection, "title": title}
    planned = plan_grid.options(name="plan")(resolution=resolution, **area, **named)
    parts = cascade_descendants.map(planned.parts, name="cascade", work=planned.work, part=EACH).fold(name="all")
    done: Any = finish_grid.options(name="finish")(work=planned.work, parts=parts["items"])
    review, ways = review_first(approval, done, "the grid")
    published: Any = register_items.options(name="publish", after_any=ways)(
        collection=collection, items=done["items"], reason=reason, create_collection=True
    )
    return {
        "outputs": done.outputs, "items": expr.default(published["items"], []), "report": done.report,
        "approved": expr.optional(review.approved), "why": expr.optional(review.why),
    }  # fmt: skip


LAYER = "The name of the layer, which is that of its table in schema geo."


@workflow("unpublish_vector", name="Unpublish a vector layer", version=1)
def unpublish_vector(
    layer: Annotated[Line, Input(maximum=63, description=LAYER)],
    reason: Annotated[str, Input(maximum=1000, description="Why it is withdrawn; stored in the item's history.")],
    expected: Annotated[
        int,
        Input(minimum=1, description="The number of the publication that was seen last; another one is a conflict."),
    ]
    | None = None,
    dry_run: Annotated[bool, Input(description="Whether to show the inventory and change nothing.")] = True,
    confirm: Annotated[bool, Input(description="Must be true, unless it is a dry run.")] = False,
) -> Any:
    """Show what a published layer consists of, and withdraw it from its readers once that is confirmed; it can be restored for a while."""  # noqa: E501  # as the file has it
    found = show_layer.options(name="layer")(layer=layer)
    named: Any = {"collection": found.collection, "item": found.item, "reason": reason}
    first: Any = expr.default(expected, found.number)
    inventory = unpublish_item.options(name="inventory")(**named, expected=first, dry_run=True)
    withdraw = unpublish_item.options(name="withdraw", when=dry_run == False, after=inventory)(
        **named, expected=found.number, dry_run=False, confirm=confirm
    )
    return {"layer": found, "inventory": inventory, "withdrawn": expr.optional(withdraw)}


@workflow("export_gold", name="Export a vector layer", version=1)
def export_gold(
    layer: Annotated[Line, Input(maximum=63, description=LAYER)],
    formats: Annotated[
        list[Any], Input(minimum=1, maximum=4, description="The formats: geoparquet, flatgeobuf, pmtiles and csv.")
    ] = ["geoparquet"],  # noqa: B006  # read once
    max_zoom: Annotated[
        int,
        Input(
            minimum=0, maximum=18, description="The largest scale of PMTiles; without it, it follows from the extent."
        ),
    ]
    | None = None,
    reason: Annotated[str, Input(maximum=1000, description="Why it is exported; stored in the item's history.")]
    | None = None,
) -> Any:
    """Write the rows of a published vector layer to files for analysts and web maps, verify them, and publish them with its item."""  # noqa: E501  # as the file has it
    made: Any = export_layer.options(name="export")(layer=layer, formats=formats, max_zoom=max_zoom)
    publish: Any = register_items.options(name="publish")(
        collection=made.collection, items=made["items"], reason=reason, keep_same=True
    )
    return {
        "outputs": made.outputs,
        "items": publish["items"],
        "changed": publish.changed,
        "rows": made.rows,
        "max_zoom": expr.optional(made.max_zoom),
    }


@workflow("process_vector_collection", name="Publish a collection of vector files", version=2)
def process_vector_collection(
    collection: Annotated[Line, Input(description="The STAC collection that the items join.")],
    sources: Annotated[list[Any], Input(maximum=10_000, description="The addresses of the files.")] = [],  # noqa: B006  # read once
    folder: Annotated[
        Line,
        Input(description="The folder whose vector files are published, with those of the folders below it."),
    ]
    | None = None,
    extensions: Annotated[
        list[Any], Input(maximum=100, description="Of a folder only files with these extensions, like [gpkg, geojson].")
    ] = [],  # noqa: B006  # read once
    title: Annotated[Line, Input(maximum=200, description="The title of the collection.")] | None = None,
    description: Annotated[str, Input(minimum=1, maximum=5000, description="The description of the collection.")]
    | None = None,
    crs: Annotated[Line, Input(description="The CRS of files that have none, like EPSG:25832.")] | None = None,
    lat: Annotated[Line, Input(maximum=200, description="The column of CSV files with the latitude.")] | None = None,
    lon: Annotated[Line, Input(maximum=200, description="The column of CSV files with the longitude.")] | None = None,
    wkt: Annotated[Line, Input(maximum=200, description="The column of CSV files with the geometry as WKT.")]
    | None = None,
    delimiter: Annotated[str, Input(maximum=3, description="What separates the columns of CSV files: , ; | or tab.")]
    | None = None,
    encoding: Annotated[Line, Input(maximum=40, description="The encoding of texts, like cp1252.")] | None = None,
    keep_z: Annotated[bool, Input(description="Whether heights of coordinates are kept.")] = False,
    datetime: Annotated[Line, Input(description="The time of the data, in RFC 3339.")] | None = None,
    reason: Annotated[
        str, Input(maximum=1000, description="Why they are published, or replaced; stored in the items' history.")
    ]
    | None = None,
    approval: Annotated[
        bool, Input(description="Whether a person must approve the set before it is published.")
    ] = False,
    dry_run: Annotated[bool, Input(description="Whether to stop after the preflight and show the plan.")] = False,
) -> Any:
    """Check and clean many vector files, load their layers into PostGIS, compare them with the sources, and publish all of them together."""  # noqa: E501  # as the file has it
    options: Any = {
        "collection": collection, "crs": crs, "lat": lat, "lon": lon, "wkt": wkt, "delimiter": delimiter,
        "encoding": encoding, "keep_z": keep_z, "datetime": datetime,
    }  # fmt: skip
    plan: Any = plan_files.options(name="preflight")(sources=sources, folder=folder, extensions=extensions, **options)
    clean = clean_file.map(plan.files, name="clean", when=dry_run == False, file=item, **options)
    all_cleaned: Any = clean.fold({"parts": {"collect": "part"}, "chunks": {"concat": "chunks"}}, name="all_cleaned")
    check: Any = check_files.options(name="check")(collection=collection, parts=all_cleaned.parts)
    refuse = refuse_files.options(name="refuse")(**{name: check.failure[name] for name in FAILURE})
    row: Any = item
    chunk: Any = {name: row[name] for name in ("table", "number", "rows", "file")}
    made: dict[str, Any] = {}

    def go_on() -> Any:
        load = load_chunk.map(all_cleaned.chunks, name="load", **chunk)
        loaded = load.fold("collect", name="loaded")
        finish = finish_file.map(all_cleaned.parts, name="finish", after=loaded, part=item, datetime=datetime)
        finished = finish.fold({"items": {"collect": "items"}, "outputs": {"concat": "outputs"}}, name="finished")
        review, ways = review_first(approval, finished, "the whole set")
        publish = task("stac.register_items").options(name="publish", after_any=ways)(
            collection=collection, files=finished["items"], reason=reason, create_collection=True, title=title,
            description=description, keep_same=True,
        )  # fmt: skip
        made.update(finished=finished, review=review, publish=publish)
        return publish

    choose(check.accepted == True, go_on, refuse, name="complete")
    finished, review, publish = made["finished"], made["review"], made["publish"]
    return {
        "outputs": expr.default(finished.outputs, []),
        "items": expr.default(publish["items"], []),
        "changed": expr.default(publish["changed"], 0),
        "warnings": expr.default(check.warnings, []),
        "report": expr.optional(check.report),
        "approved": expr.optional(review.approved),
        "why": expr.optional(review.why),
        "plan": plan,
    }


FUNCTIONS = [value for value in list(globals().values()) if isinstance(value, WorkflowFunction)]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_plugins()


def without_ends(flow: Workflow) -> Workflow:
    """A workflow whose START is left out, and whose END is its output."""
    output = next((node.output for node in flow.nodes if isinstance(node, EndNode) and node.name == "END"), flow.output)
    kept = [node for node in flow.nodes if node.name not in ("START", "END")]
    nodes = tuple(replace(node, after=tuple(name for name in node.after if name != "START")) for node in kept)
    return replace(flow, nodes=nodes, output=output)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: str(function.id))
def test_a_function_gives_the_definition_of_the_file(function: Any, registry: Registry) -> None:
    loaded = function.load(registry.handlers)
    assert loaded.mistakes == ()
    resolved = replace(loaded.workflow, nodes=tuple(map(registry._resolve_node, loaded.workflow.nodes)))
    shipped = without_ends(registry.declaration(function.id).workflow)
    unpinned = replace(shipped, nodes=tuple(map(_unpin, shipped.nodes)))
    assert resolved == unpinned
    assert resolved.hash == unpinned.hash


def _unpin(node: Any) -> Any:
    """Without the hash of the workflow that it runs, which is known once all are."""
    work = node.work
    return replace(node, task=replace(work, workflow_hash="")) if getattr(work, "workflow_hash", "") else node


def test_every_kind_of_node_of_the_shipped_files_is_in_a_function(registry: Registry) -> None:
    shipped = {name: found.workflow for name, found in registry.declarations.items() if found.origin.endswith(".yaml")}
    written = {function.id for function in FUNCTIONS}
    kinds = {type(node) for workflow in shipped.values() for node in workflow.nodes}
    assert kinds == {type(node) for name in written for node in shipped[name].nodes}
