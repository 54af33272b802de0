"""Tables of vector layers and the items that show them, made by SQL, for tests of what becomes of them."""

from collections.abc import Sequence
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from anabranch.canonical import Json
from anabranch.plugins.stac.catalog import Layer, Publication, publish
from anabranch.plugins.stac.facts import VectorItem
from anabranch.plugins.stac.item import Origin, build_item, find_outputs

__all__ = ["fill_table", "publish_layer", "vector_item"]

COLUMNS: list[Json] = [{"name": "label", "type": "text"}]


def fill_table(owner: Connection[Any], name: str, labels: Sequence[str], columns: Sequence[Json] = COLUMNS) -> str:
    """A finished table of points on the equator, one for each label, which is text or what its column takes."""
    owner.execute(f"create table geo.{name} (gid bigint primary key, geom public.geometry(Point, 4326) not null)")
    for column in columns:
        assert isinstance(column, dict)
        owner.execute(f"alter table geo.{name} add column {column['name']} {column['type']}")
    for gid, label in enumerate(labels, 1):
        owner.execute(
            f"insert into geo.{name} select %s, public.st_setsrid(public.st_point(%s, 0), 4326)"
            + ", %s" * len(columns),
            [gid, gid, *[label] * len(columns)],
        )
    owner.execute(f"create index on geo.{name} using gist (geom)")
    owner.execute(
        "insert into app.layer_tables values (%s, 'job', 'Point', false, %s, %s, now())",
        [name, Jsonb(list(columns)), len(labels)],
    )
    return name


def vector_item(layer: str, parts: Sequence[str], job: str, columns: Sequence[Json] = COLUMNS) -> VectorItem:
    """The facts of a layer as a handler gives them."""
    ring: list[Json] = [[1, -1], [3, -1], [3, 1], [1, 1], [1, -1]]
    output: dict[str, Json] = {
        "kind": "report", "href": f"silver://jobs/{job}/report.json", "media_type": "application/json", "size": 1,
        "sha256": job[:1] * 64,
    }  # fmt: skip
    table: dict[str, Json] = {
        "name": layer, "parts": list[Json](parts), "columns": list[Json](columns), "rows": 2, "geometry_type": "Point",
        "sha256": job[:1] * 64,
    }  # fmt: skip
    return VectorItem.model_validate(
        {
            "id": layer, "title": f"The {layer}", "datetime": "2024-05-01T10:30:00Z", "outputs": [output],
            "footprint": {"type": "Polygon", "coordinates": [ring]}, "table": table,
            "source": {"sha256": "ef" * 32, "name": "roads.gpkg"},
        }
    )  # fmt: skip


def publish_layer(
    handler: Connection[Any], layer: str, parts: Sequence[str], job: str, *, item: str | None = None,
    columns: Sequence[Json] = COLUMNS,
) -> None:  # fmt: skip
    """Publish tables as a layer, in the collection `layers`, which exists."""
    facts = vector_item(layer, parts, job, columns).model_copy(update={"id": item or layer})
    document = build_item("layers", facts, Origin(job), "0.1.0")
    publish(handler, "layers", job, [Publication(document, find_outputs(facts), layer=Layer(layer, list(parts)))])
