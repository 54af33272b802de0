"""Parameters and results of the vector handlers, validated where they enter."""

from pydantic import AwareDatetime, JsonValue, field_serializer

from anabranch.plugins.stac.facts import Output as ItemOutput
from anabranch.plugins.stac.facts import VectorItem
from anabranch.plugins.vector.models import AppendTarget, Column, GeometryType, LayerReport, TableRows
from anabranch.plugins.vector.request import VectorRequest
from anabranch.storage.listed_files import PlannedFile
from anabranch.storage.ndjson import Output
from anabranch.strict_model import StrictModel

__all__ = [
    "Chunk", "ChunkRows", "CleanParams", "Cleaned", "FinishParams", "Finished", "Loaded", "Output", "Plan",
    "PublishedLayer", "Report", "ShownLayer", "StagedTable",
]  # fmt: skip


class ShownLayer(StrictModel):
    """A layer as readers see it, which rows are to be added to."""

    collection: str
    item: str
    number: int
    parts: tuple[str, ...]
    geometry_type: GeometryType
    has_z: bool
    columns: tuple[Column, ...]
    rows: int
    bounds: tuple[float, float, float, float]


class PublishedLayer(StrictModel):
    """A layer as readers see it, with the document of its item and the files of that."""

    shown: ShownLayer
    document: dict[str, JsonValue]
    files: tuple[ItemOutput, ...]


class Plan(PlannedFile):
    """What will be done if the file is valid."""

    table: str
    shown: ShownLayer | None = None
    last_gid: int = 0
    warnings: tuple[str, ...] = ()

    def target(self) -> dict[str, AppendTarget]:
        """The layer that rows are added to, as an argument; none where they make a new one."""
        if self.shown is None:
            return {}
        fields = self.shown.model_dump(include={"columns", "geometry_type", "has_z"})
        return {"target": AppendTarget(name=self.table, last_gid=self.last_gid, **fields)}


class CleanParams(VectorRequest):
    """A file, the caller's options, and the plan for it."""

    plan: Plan


class StagedTable(TableRows):
    """A table in schema `geo` that rows are loaded into, and the name that readers will know it by."""

    table: str
    name: str
    geometry_type: GeometryType
    columns: tuple[Column, ...]
    size: int


class ChunkRows(StrictModel):
    """Rows for one table that are copied at once; `number` distinguishes them from the others of the table."""

    table: str
    number: int
    rows: int


class Chunk(ChunkRows):
    """A file of rows for one table."""

    file: dict[str, JsonValue]


class Report(StrictModel):
    """What was detected, decided, repaired and dropped."""

    source: str
    sha256: str
    layers: tuple[LayerReport, ...]
    warnings: tuple[str, ...]
    software: dict[str, str]


class Cleaned(StrictModel):
    """The tables of a file, and the files of rows to load into them."""

    sha256: str
    tables: tuple[StagedTable, ...]
    chunks: tuple[Chunk, ...]
    warnings: tuple[str, ...]
    report: Output
    software: dict[str, str]


class Loaded(StrictModel):
    """How many rows a task copied; 0 where an earlier attempt had copied them."""

    rows: int


class FinishParams(StrictModel):
    """The tables whose rows were all copied, and the fields of their items."""

    source: str
    plan: Plan
    cleaned: Cleaned
    item_id: str | None = None
    title: str | None = None
    datetime: AwareDatetime | None = None


class Finished(StrictModel):
    """The tables, checked, with the facts of their items."""

    outputs: tuple[Output, ...]
    items: tuple[VectorItem, ...]
    warnings: tuple[str, ...]
    report: str

    @field_serializer("items")
    def _leave_out_none(self, items: tuple[VectorItem, ...]) -> list[dict[str, JsonValue]]:
        return [item.model_dump(mode="json", exclude_none=True) for item in items]
