"""Reads all rows of a layer, for comparison."""

from dataclasses import dataclass
from typing import Any

import shapely

from anabranch.plugins.vector.models import Count, Notes, SourceLayer

__all__ = ["Content", "read_all"]


@dataclass(frozen=True)
class Content:
    """The rows of a layer, and what was noted of them."""

    rows: list[int]
    attributes: list[dict[str, Any]]
    geometry: list[bytes | None]
    dropped: dict[str, Count]
    changed: dict[str, Count]
    sizes: list[int]

    @property
    def shapes(self) -> list[str]:
        """The geometries as text."""
        return [shapely.to_wkt(shapely.from_wkb(value)) if value else "" for value in self.geometry]


def read_all(layer: SourceLayer, max_rows: int = 1000) -> Content:
    """All rows; every batch has the layer's schema."""
    dropped = Notes()
    batches = list(layer.read(max_rows, dropped))
    assert all(batch.attributes.schema.equals(layer.schema) for batch in batches)
    return Content(
        rows=[row for batch in batches for row in batch.rows.tolist()],
        attributes=[row for batch in batches for row in batch.attributes.to_pylist()],
        geometry=[value for batch in batches for value in batch.geometry.to_pylist()],
        dropped=dropped.counts(),
        changed=layer.changed.counts(),
        sizes=[len(batch.rows) for batch in batches],
    )
