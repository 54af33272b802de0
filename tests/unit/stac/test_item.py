"""Items are built and validated, without a database."""

import socket
from typing import Any

import pystac
import pytest
from pydantic import ValidationError

from anabranch.errors import InputError
from anabranch.plugins.stac.item import EXTENSIONS, Origin, build_item, find_outputs
from anabranch.plugins.stac.names import check_collection_id, check_item_id, split_address
from anabranch.plugins.stac.validation.validate import find_errors, known_schemas, validate
from tests.support.items import raster_facts, raster_item

ORIGIN = Origin("j" * 64, "process_raster", "w" * 64)


def build(**changes: Any) -> dict[str, Any]:
    item: dict[str, Any] = build_item("heights", raster_item(**changes), ORIGIN, "0.1.0")
    return item


def test_c1_an_item_is_valid_by_every_schema_that_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("no schema comes from a network"))
    item = build()
    assert find_errors(item) == []
    assert item["stac_version"] == "1.1.0"
    assert item["stac_extensions"] == [uri for name, uri in EXTENSIONS.items() if name != "table"]


def test_c1_another_reader_of_stac_understands_it() -> None:
    item = pystac.Item.from_dict(build(), migrate=False)
    assert (item.id, item.collection_id, item.bbox) == ("dem", "heights", [7.0, 50.5, 7.2, 50.7])
    assert item.datetime is not None
    assert item.assets["data"].media_type == pystac.MediaType.COG


def test_an_item_describes_the_raster() -> None:
    item = build()
    properties, data = item["properties"], item["assets"]["data"]
    assert properties["proj:code"] == "EPSG:25832"
    assert properties["proj:shape"] == [400, 300]
    assert properties["proj:transform"] == [10, 0, 360000, 0, -10, 5620000]
    assert properties["proj:bbox"] == [360000, 5616000, 363000, 5620000]
    assert data["bands"][0]["raster:scale"] == 1
    assert (data["bands"][0]["nodata"], data["bands"][0]["unit"]) == ("nan", "m")
    assert data["bands"][0]["statistics"]["valid_percent"] == 98.5
    assert (data["file:size"], data["file:checksum"]) == (123456, "1220" + "ab" * 32)
    assert item["assets"]["thumbnail"]["roles"] == ["thumbnail"]
    assert properties["renders"]["default"]["rescale"] == [[41.5, 460.25]]


def test_an_item_names_its_origin() -> None:
    properties = build()["properties"]
    assert properties["processing:software"] == {"anabranch": "0.1.0", "GDAL": "3.10.0"}
    for fact in ("ef" * 32, "j" * 64, "process_raster", "w" * 64):
        assert fact in properties["processing:lineage"]
    expression = properties["processing:expression"]["expression"]
    assert expression["source_checksum"] == "1220" + "ef" * 32
    assert (expression["job"], expression["workflow_hash"]) == ("j" * 64, "w" * 64)


def test_the_same_facts_give_the_same_item() -> None:
    assert build() == build()


def test_c1_an_interval_has_an_explicit_null() -> None:
    item = build(datetime=None, start_datetime="2024-01-01T00:00:00+01:00", end_datetime="2024-12-31T23:59:59Z")
    assert find_errors(item) == []
    times = {name: item["properties"][name] for name in ("datetime", "start_datetime", "end_datetime")}
    assert times == {
        "datetime": None, "start_datetime": "2023-12-31T23:00:00Z", "end_datetime": "2024-12-31T23:59:59Z"
    }  # fmt: skip


def test_c1_a_footprint_across_the_antimeridian_has_a_box_across_it() -> None:
    parts = [
        [[[w, -10.0], [e, -10.0], [e, -8.0], [w, -8.0], [w, -10.0]]] for w, e in ((178.5, 180.0), (-180.0, -179.0))
    ]
    item = build(footprint={"type": "MultiPolygon", "coordinates": parts})
    assert item["bbox"] == [178.5, -10, -179, -8]
    assert find_errors(item) == []


def test_c1_a_world_keeps_its_width() -> None:
    ring = [[-180.0, -90.0], [180.0, -90.0], [180.0, 90.0], [-180.0, 90.0], [-180.0, -90.0]]
    assert build(footprint={"type": "Polygon", "coordinates": [ring]})["bbox"] == [-180, -90, 180, 90]


def test_c1_islands_on_either_side_of_the_antimeridian_have_a_narrow_box() -> None:
    rings = [[(x, -9), (x + 1, -9), (x + 1, -8), (x, -9)] for x in (178, -179)]
    footprint = {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}
    assert build(footprint=footprint, bbox=[178, -9, -178, -8])["bbox"] == [178, -9, -178, -8]


SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"crs": None}, "the CRS is missing"),
        ({"crs": "https://elsewhere.example/crs"}, "write the CRS like"),
        ({"datetime": None}, "the item has no time"),
        ({"datetime": "2024-01-01T00:00:00"}, "timezone"),
        ({"start_datetime": "2024-01-01T00:00:00Z"}, "together"),
        ({"start_datetime": "2024-01-02T00:00:00Z", "end_datetime": "2024-01-01T00:00:00Z"}, "is after"),
        ({"footprint": {"type": "Polygon", "coordinates": []}}, "empty"),
        ({"footprint": {"type": "Polygon", "coordinates": [[[360000.0, 5616000.0]] * 4]}}, "leaves the globe"),
        ({"footprint": {"type": "Polygon", "coordinates": [[*SQUARE[:-1], [0.5, 0.5]]]}}, "not closed"),
        ({"footprint": {"type": "Polygon", "coordinates": [SQUARE[:3]]}}, "fewer than four"),
        ({"footprint": {"type": "Polygon", "coordinates": [[["a", "b"]] * 4]}}, "longitude and a latitude"),
        ({"footprint": {"type": "Polygon", "coordinates": [SQUARE[:-1] * 3000 + SQUARE[:1]]}}, "simplify"),
        ({"bbox": [7.1, 50.5, 7.2, 50.7]}, "does not cover"),
        ({"bbox": [360000, 5616000, 363000, 5620000]}, "leaves the globe"),
        ({"bands": []}, "at least 1"),
        ({"unheard_of": 1}, "Extra inputs"),
    ],
)  # fmt: skip
def test_c1_facts_that_make_no_item_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        raster_item(**changes)


def test_no_number_is_one_that_json_has_not() -> None:
    with pytest.raises(ValidationError, match="finite"):
        raster_item(bounds=[float("nan"), 0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a.",
        "-a",
        "a/b",
        "a\\b",
        "a b",
        "a\n",
        "a\0",
        "ä",
        "a%2fb",
        "a'b",
        "a\u202eb",
        "x" * 129,
    ],
)
def test_c1_hostile_ids_are_refused(value: str) -> None:
    for check, code in ((check_collection_id, "catalog.collection_id"), (check_item_id, "catalog.item_id")):
        with pytest.raises(InputError) as caught:
            check(value)
        assert caught.value.code == code
        assert caught.value.message.isascii(), "it is shown without what it would do to a terminal"
        assert caught.value.remedy


@pytest.mark.parametrize("value", ["a", "dem_2024-05.tile_r1_c2", "S2A.MSI", "process_raster", "0"])
def test_plain_ids_are_accepted(value: str) -> None:
    assert (check_collection_id(value), check_item_id(value)) == (value, value)


@pytest.mark.parametrize(
    "address",
    ["", "silver://", "file:///etc/passwd", "https://x/y", "silver:///a", "silver://a/../b", "silver://a//b", "silver://a\\b",
     "silver://a\nb", "silver://" + "x" * 1025],
)  # fmt: skip
def test_an_asset_is_an_object_of_ours(address: str) -> None:
    output = {"kind": "cog", "href": address, "media_type": "image/tiff", "size": 1, "sha256": "ab" * 32}
    with pytest.raises(InputError) as caught:
        build(outputs=[output])
    assert caught.value.code == "catalog.address"


def test_outputs_have_names_with_item_and_asset() -> None:
    found = find_outputs(raster_item())
    assert [(output.name, output.tier, output.key) for output in found] == [
        ("dem.tif", "silver", "jobs/1/cog/0/1/dem.tif"),
        ("dem.thumbnail.png", "silver", "jobs/1/cog/0/1/dem.png"),
    ]
    assert split_address("gold://a/b.c") == ("gold", "a/b.c")


def test_two_outputs_of_one_asset_are_refused() -> None:
    output = {"kind": "cog", "href": "silver://a.tif", "media_type": "image/tiff", "size": 1, "sha256": "ab" * 32}
    with pytest.raises(InputError) as caught:
        build(outputs=[output, output])
    assert caught.value.code == "catalog.asset_twice"
    item = build(outputs=[output, output | {"asset": "visual", "href": "silver://b.tif"}])
    assert set(item["assets"]) == {"data", "visual"}


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["properties", "proj:shape"], "wide", "proj:shape"),
        (["properties", "proj:epsg"], 4326, "proj:epsg"),
        (["properties", "datetime"], "yesterday", "datetime"),
        (["properties", "processing:software"], {"x": 1}, "processing:software"),
        (["properties", "processing:mood"], "good", "processing:mood"),
        (["assets", "data", "raster:bands"], [], "raster:bands"),
        (["assets", "data", "bands", 0, "raster:scale"], "much", "raster:scale"),
        (["assets", "data", "bands", 0, "data_type"], "float128", "data_type"),
        (["assets", "data", "file:checksum"], "XYZ", "file:checksum"),
        (["assets", "data", "file:size"], -1, "file:size"),
        (["geometry"], {"type": "Polygon"}, "geometry"),
        (["stac_extensions"], ["https://elsewhere.example/schema.json"], "is unknown"),
        (["type"], "Poem", "not Feature, Collection or Catalog"),
        (["links"], [], "collection"),
    ],
)  # fmt: skip
def test_c1_what_breaks_a_schema_is_refused_with_its_place(place: list[Any], value: Any, said: str) -> None:
    item = build()
    holder: Any = item
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    with pytest.raises(InputError) as caught:
        validate(item)
    assert caught.value.code == "catalog.invalid"
    assert said in caught.value.message


def test_every_schema_is_there() -> None:
    assert [uri for uri, path in known_schemas().items() if not path.is_file()] == []


def test_facts_are_plain_json() -> None:
    assert raster_item().model_dump(mode="json", exclude_none=True)["id"] == raster_facts()["id"]
