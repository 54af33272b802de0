"""What a user's table is published with: a report, and the facts of its STAC item."""

from dataclasses import dataclass

from anabranch.manifests.statement import Origin
from anabranch.plugins.stac.facts import Footprint, Output, Table, TableColumn, VectorItem
from anabranch.plugins.vector.publishing.describe import EPOCH, OURS, Bounds, outline
from anabranch.plugins.vector.user_tables.inspection import TableFacts
from anabranch.plugins.vector.user_tables.request import PublishRequest
from anabranch.strict_model import StrictModel

__all__ = ["AdoptedTable", "TableReport", "build_report", "describe_item"]


@dataclass(frozen=True)
class AdoptedTable:
    """A table of ours that holds the rows of a user's."""

    name: str
    rows: int
    bounds: Bounds
    sha256: str


class TableReport(StrictModel):
    """What was found in a user's table, and what the layer has of it."""

    table: str
    geometry_column: str
    geometry_type: str
    has_z: bool
    numbered: bool
    columns: tuple[TableColumn, ...]
    rows: int
    bounds: Bounds
    sha256: str


def build_report(source: TableFacts, adopted: AdoptedTable) -> TableReport:
    """The report of a layer; `numbered` says that its rows had no numbers of their own."""
    return TableReport(
        table=f"geo.{source.table}",
        geometry_column=source.geometry,
        geometry_type=source.geometry_type,
        has_z=source.has_z,
        numbered=not source.has_gid,
        columns=source.columns,
        rows=adopted.rows,
        bounds=adopted.bounds,
        sha256=adopted.sha256,
    )


def describe_item(
    wanted: PublishRequest, source: TableFacts, adopted: AdoptedTable, report: Output, origin: Origin
) -> VectorItem:
    """The facts of the item; where its time is not known, it ends with that of the job."""
    return VectorItem(
        id=wanted.name,
        title=wanted.title,
        description=wanted.description,
        datetime=wanted.datetime,
        start_datetime=None if wanted.datetime else EPOCH,
        end_datetime=None if wanted.datetime else origin.created_at or EPOCH,
        footprint=Footprint(type="Polygon", coordinates=[outline(adopted.bounds)]),
        bbox=adopted.bounds,
        outputs=[report],
        software={"PostGIS": source.postgis},
        table=Table(
            name=wanted.name,
            parts=[adopted.name],
            columns=[*OURS, *source.columns],
            rows=adopted.rows,
            geometry_type=source.geometry_type,
            sha256=adopted.sha256,
        ),
    )
