"""The facts of a layer are read back from its item."""

from datetime import UTC, datetime
from typing import Any

import pytest

from anabranch.plugins.stac.facts import Footprint, Output, Source, Table, TableColumn, VectorItem
from anabranch.plugins.stac.item import Origin, build_item, find_outputs
from anabranch.plugins.stac.item_facts import read_vector_item
from anabranch.plugins.vector.publishing.describe import outline

ORIGIN = Origin("job", "process_vector", "0" * 64, datetime(2026, 3, 22, tzinfo=UTC))
BONN = (7.1, 50.7, 7.1, 50.7)
RING = [[7.0, 50.0], [8.0, 50.0], [8.0, 51.0], [7.0, 51.0], [7.0, 50.0]]
START, END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 3, 21, tzinfo=UTC)
REPORT = Output(kind="report", href="silver://j/report.json", media_type="application/json", size=7, sha256="a" * 64)
TABLE = Table(
    name="towns", parts=["towns_1", "towns_2"], rows=3, geometry_type="Point", sha256="b" * 64,
    columns=[TableColumn(name="gid", type="bigint"), TableColumn(name="name", type="text", description="Name.")],
)  # fmt: skip


def make_facts(**more: object) -> VectorItem:
    plain = {
        "id": "towns", "footprint": Footprint(type="Polygon", coordinates=[RING]), "bbox": (7.0, 50.0, 8.0, 51.0),
        "start_datetime": START, "end_datetime": END, "table": TABLE,
        "outputs": [REPORT.model_copy(update={"asset": "report", "name": "report.json"})],
    }  # fmt: skip
    return VectorItem.model_validate({**plain, **more})


@pytest.mark.parametrize(
    "facts",
    [
        make_facts(),
        make_facts(title="Towns", description="Of a river.", datetime=END, start_datetime=None, end_datetime=None),
        make_facts(source=Source(sha256="c" * 64, name="towns.gpkg"), software={"pyogrio": "0.12"}),
        make_facts(source=Source(name="towns.gpkg")),
        make_facts(footprint=Footprint(type="Polygon", coordinates=[outline(BONN)]), bbox=BONN),
        make_facts(
            outputs=[
                REPORT.model_copy(update={"asset": "report", "name": "report.json"}),
                Output(
                    **{**REPORT.model_dump(), "kind": "csv", "href": "gold://j/towns.csv"}, title="CSV", version="7"
                ),
            ]
        ),
    ],
)
def test_c3_the_same_item_is_built_of_what_was_read_back(facts: VectorItem) -> None:
    document: Any = build_item("places", facts, ORIGIN, "1.0")
    files = [
        Output.model_validate(
            {"href": f"{file.tier}://{file.key}", **{k: v for k, v in vars(file).items() if k not in ("tier", "key")}}
        )
        for file in find_outputs(facts)
    ]
    read = read_vector_item(document, files, TABLE.parts)
    assert build_item("places", read, ORIGIN, "1.0") == document
    assert find_outputs(read) == find_outputs(facts)
    assert read.table == facts.table
    assert "file:checksum" not in document["assets"]["data"], "no bytes at its address have the hash of the rows"


def test_the_hash_of_the_rows_is_read_of_items_of_earlier_releases() -> None:
    document: Any = build_item("places", make_facts(), ORIGIN, "1.0")
    document["assets"]["data"]["file:checksum"] = f"1220{document['properties'].pop('anabranch:rows_sha256')}"
    (report,) = make_facts().outputs
    assert read_vector_item(document, [report], TABLE.parts).table == TABLE
