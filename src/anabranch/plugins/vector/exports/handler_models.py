"""Parameters and results of the handlers of published layers."""

from typing import Annotated

from pydantic import Field, JsonValue, field_serializer, field_validator

from anabranch.plugins.stac.facts import VectorItem
from anabranch.plugins.vector.exports.models import MAX_ZOOM, ExportFormat
from anabranch.plugins.vector.handler_models import Output
from anabranch.strict_model import StrictModel

__all__ = ["ExportParams", "ExportedLayer", "LayerInventory", "LayerName", "LayerParams"]

LayerName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]


class LayerParams(StrictModel):
    """A published layer, by its name in schema geo."""

    layer: LayerName


class LayerInventory(StrictModel):
    """A published layer: its item, the number of its publication, and what it shows."""

    collection: str
    item: str
    number: int
    table: str
    rows: int
    parts: tuple[str, ...]


class ExportParams(LayerParams):
    """A published layer, and the formats that it is written in."""

    formats: tuple[ExportFormat, ...] = Field(("geoparquet",), min_length=1)
    max_zoom: int | None = Field(None, ge=0, le=MAX_ZOOM)

    @field_validator("formats")
    @classmethod
    def _once(cls, formats: tuple[ExportFormat, ...]) -> tuple[ExportFormat, ...]:
        return tuple(dict.fromkeys(formats))


class ExportedLayer(StrictModel):
    """The files of a layer, and the facts of its item with them."""

    collection: str
    items: tuple[VectorItem, ...]
    outputs: tuple[Output, ...]
    rows: int
    max_zoom: int | None

    @field_serializer("items")
    def _leave_out_none(self, items: tuple[VectorItem, ...]) -> list[dict[str, JsonValue]]:
        return [item.model_dump(mode="json", exclude_none=True) for item in items]
