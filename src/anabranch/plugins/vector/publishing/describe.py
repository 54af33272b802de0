"""What loaded tables are published with: the facts of their STAC items, and their outputs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import PurePosixPath

from anabranch.plugins.stac.facts import Footprint, Source, Table, TableColumn, VectorItem
from anabranch.plugins.stac.facts import Output as ItemOutput
from anabranch.plugins.vector.cleaning.names import has_other_letters
from anabranch.plugins.vector.handler_models import FinishParams, Output, Plan, ShownLayer, StagedTable
from anabranch.plugins.vector.models import Bounds

__all__ = ["EPOCH", "OURS", "Bounds", "describe_item", "describe_time", "outline", "table_output", "unite"]

TABLE_TYPE = "application/vnd.postgis.table"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TITLE_CHARS = 200
MIN_SIDE_DEGREES = 1e-6
OURS = (
    TableColumn(name="gid", type="bigint", description="The number of the row."),
    TableColumn(name="geom", type="geometry", description="The geometry, in EPSG:4326."),
)


def table_output(table: StagedTable) -> Output:
    """The table as an output of its job."""
    href = f"geo.{table.name}"
    return Output(kind="table", href=href, media_type=TABLE_TYPE, size=table.size, sha256=table.sha256)


def describe_item(
    params: FinishParams, table: StagedTable, item_id: str, before: VectorItem | None = None
) -> VectorItem:
    """The facts of the item of a table, and of the tables that it is added to.

    `before` is the item of these: what is not given with the new rows is kept of it.
    """
    shown, bounds = params.plan.shown, table.bounds
    if shown:
        bounds = unite(bounds, shown.bounds)
    report = params.cleaned.report
    return VectorItem(
        id=item_id,
        title=params.title or (before.title if before else _name_title(params)),
        description=before.description if before else None,
        **describe_time(params.datetime, params.plan, before),
        footprint=Footprint(type="Polygon", coordinates=[outline(bounds)]),
        bbox=bounds,
        outputs=[ItemOutput(**report.model_dump(), asset="report", name="report.json")],
        source=Source(sha256=params.cleaned.sha256, name=params.plan.name),
        software=params.cleaned.software,
        expected=shown.number if shown else None,
        table=Table(
            name=table.name,
            parts=[*(shown.parts if shown else ()), table.table],
            columns=before.table.columns if before else [*OURS, *_describe_columns(table)],
            rows=table.rows + (shown.rows if shown else 0),
            geometry_type=table.geometry_type,
            sha256=_hash_parts(shown, table),
        ),
    )


def _name_title(params: FinishParams) -> str | None:
    """The name of the file, where that of the table does not have all of its letters."""
    name = PurePosixPath(params.plan.name).stem
    return name[:MAX_TITLE_CHARS] if has_other_letters(name) else None


def describe_time(given: datetime | None, plan: Plan, before: VectorItem | None) -> dict[str, datetime | None]:
    """A time; where none is known, all until the file was written."""
    modified = datetime.fromisoformat(plan.modified)
    if given:
        return {"datetime": given}
    if before is None:
        return {"start_datetime": EPOCH, "end_datetime": modified}
    end = before.end_datetime
    if end and before.start_datetime == EPOCH:
        end = max(end, modified)
    return {"datetime": before.datetime, "start_datetime": before.start_datetime, "end_datetime": end}


def _describe_columns(table: StagedTable) -> Sequence[TableColumn]:
    """The columns with what they are called in the source, where that differs."""
    return [
        TableColumn(
            name=column.name,
            type=column.type,
            description=f"{column.source} in the source." if column.source != column.name else None,
        )
        for column in table.columns
    ]


def _hash_parts(shown: ShownLayer | None, table: StagedTable) -> str:
    """The hash of the rows; where they are added to others, it covers the names of those tables, too."""
    if shown is None:
        return table.sha256
    return sha256(" ".join([*shown.parts, table.sha256]).encode()).hexdigest()


def unite(one: Bounds, other: Bounds) -> Bounds:
    """The box around two."""
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def outline(bounds: Bounds) -> list[list[float]]:
    """The outline of a box; that of a point or a straight line is widened, since it must have an area."""
    west, south, east, north = bounds
    if east - west < MIN_SIDE_DEGREES:
        west, east = max(west - MIN_SIDE_DEGREES, -180), min(east + MIN_SIDE_DEGREES, 180)
    if north - south < MIN_SIDE_DEGREES:
        south, north = max(south - MIN_SIDE_DEGREES, -90), min(north + MIN_SIDE_DEGREES, 90)
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]
