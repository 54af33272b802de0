"""Tables of vector layers and the items that show them, made by SQL, for tests of what becomes of them."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.canonical import Json
from anabranch.geo.boxes import GLOBE, Box
from anabranch.plugins.stac.catalog import By, Layer, Publication, act, ensure_collection, publish
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.facts import VectorItem
from anabranch.plugins.stac.item import Origin, build_item, find_outputs

__all__ = ["add_layer", "fill_table", "publish_layer", "vector_item", "withdraw_layer"]

CREATED_AT = datetime(2026, 11, 15, 8, tzinfo=UTC)
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


def add_layer(
    url: str, name: str, rows: str, columns: Mapping[str, str], geometry_type: str, box: Sequence[float] = GLOBE
) -> None:
    """Publish the rows of a query, which has gid, geom and these columns, as a layer of the collection `layers`."""
    table = f"{name}_{secrets.token_hex(4)}"
    listed: list[Json] = [{"name": key, "type": kind} for key, kind in columns.items()]
    stored = sql.Identifier("geo", table)
    with connect(url, Role.OWNER) as owner:
        owner.execute("set search_path to public")
        owner.execute(sql.SQL("create table {} as {}").format(stored, sql.SQL(rows)))
        owner.execute(sql.SQL("alter table {} add primary key (gid)").format(stored))
        owner.execute(sql.SQL("create index on {} using gist (geom)").format(stored))
        count = owner.execute(sql.SQL("select count(*) from {}").format(stored)).fetchone()
        assert count
        owner.execute(
            "insert into app.layer_tables values (%s, 'job', %s, false, %s, %s, now())",
            [table, geometry_type, Jsonb(listed), count[0]],
        )
    facts = vector_item(name, [table], secrets.token_hex(32), listed)
    shown = facts.table.model_copy(update={"rows": count[0], "geometry_type": geometry_type})
    area = facts.footprint.model_validate(Box.of(box).to_geojson())
    described = facts.model_copy(update={"table": shown, "footprint": area, "title": name.capitalize()})
    document = build_item("layers", described, Origin(secrets.token_hex(32), created_at=CREATED_AT), "0.1.0")
    with connect(url, Role.HANDLER) as handler:
        ensure_collection(handler, CollectionFacts(id="layers"))
        found = [Publication(document, find_outputs(described), layer=Layer(name, [table]))]
        publish(handler, "layers", secrets.token_hex(32), found)
    with connect(url, Role.OWNER) as owner:
        owner.execute("update app.publication_keys set owner = 'default' where kind = 'collection' and owner is null")


def withdraw_layer(url: str, name: str) -> None:
    """Withdraw a layer."""
    with connect(url, Role.HANDLER) as handler:
        act(handler, "withdraw", "layers", name, By(actor="ann", reason="wrong"))
