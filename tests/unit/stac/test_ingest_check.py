"""Items and collections from elsewhere are checked one by one, without a database."""

import json
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from anabranch.canonical import Json
from anabranch.engine.registry import load_plugins
from anabranch.errors import InputError
from anabranch.plugins.stac.ingest.check import Rules, check_collection, check_item
from anabranch.plugins.stac.ingest.documents import parse_item, write_document
from anabranch.plugins.stac.ingest.hrefs import Bases
from anabranch.plugins.stac.item import EXTENSIONS
from anabranch.workflows.inputs import InvalidParameters
from tests.support.stac_items import make_collection, make_item

UNKNOWN = "https://example.com/v1.0.0/schema.json"
SQUARE = [[7, 50], [8, 50], [8, 51], [7, 51], [7, 50]]


def asset(href: str) -> dict[str, Any]:
    return make_item(assets={"red": {"href": href}})


def timed(**properties: object) -> dict[str, Any]:
    return make_item(properties=properties)


def shaped(*ring: list[float]) -> dict[str, Any]:
    return make_item(geometry={"type": "Polygon", "coordinates": [list(ring)]})


@pytest.mark.parametrize(
    ("item", "code", "said"),
    [
        ({}, "ingest.not_stac", "the type is 'None'"),
        (make_item(type="Collection"), "ingest.not_stac", "not Feature"),
        (make_item(stac_version="0.9.0"), "ingest.version", "'0.9.0', neither 1.0 nor 1.1"),
        (make_item(stac_version=1.1), "ingest.version", "neither"),
        (make_item(id="../../etc"), "catalog.item_id", "is not a valid id"),
        (make_item(id="a" * 129), "catalog.item_id", "is not a valid id"),
        (make_item(id=5, collection=None), "ingest.no_collection", "names no collection"),
        (make_item(collection="a/b"), "catalog.collection_id", "'a/b'"),
        (timed(), "ingest.time", "neither a datetime nor an interval"),
        (timed(datetime=None, start_datetime="2024-01-01T00:00:00Z"), "ingest.time", "neither"),
        (timed(datetime="yesterday"), "ingest.time", "'yesterday' is not a time"),
        (timed(datetime="2024-02-30T00:00:00Z"), "ingest.time", "is not a time"),
        (timed(datetime=5), "ingest.time", "properties.datetime: '5'"),
        (
            timed(datetime=None, start_datetime="2024-02-01T00:00:00Z", end_datetime="2024-01-01T00:00:00Z"),
            "ingest.time",
            "start_datetime is after end_datetime",
        ),
        (make_item(geometry=None), "ingest.place", "no geometry"),
        (make_item(geometry={"type": "Point", "coordinates": []}), "catalog.invalid", "geometry.coordinates"),
        (make_item(geometry={"type": "MultiPoint", "coordinates": [[7, 95]]}), "ingest.place", "7, 95"),
        (make_item(geometry={"type": "MultiPolygon", "coordinates": []}), "ingest.place", "no positions"),
        (make_item(geometry={"type": "Polygon", "coordinates": []}), "ingest.place", "no positions"),
        (make_item(geometry={"type": "GeometryCollection", "geometries": [5]}), "catalog.invalid", "geometry"),
        (shaped([7, 50], [181, 50], [8, 51], [7, 50]), "ingest.place", "181, 50 is not on the globe"),
        (shaped([7, 50], [8, 5000], [8, 51], [7, 50]), "ingest.place", "8, 5000"),
        (shaped([7, 50], [8, 50], [8, 51], [7, 51]), "ingest.place", "is not closed"),
        (make_item(bbox=[7, 50, 8, 91]), "ingest.place", "bbox: 7, 50, 8, 91"),
        (make_item(bbox=[7, 51, 8, 50]), "ingest.place", "bbox"),
        (make_item(bbox=[0, 0, 1, 1]), "ingest.place", "is far from the geometry, which has the position 7, 50"),
        (make_item(bbox=[50, 7, 51, 8]), "ingest.place", "bbox: 50, 7, 51, 8 is far"),
        (make_item(bbox=[7, 50, 7.5, 51]), "ingest.place", "position 8, 50"),
        (make_item(bbox=[170, 50, -170, 51]), "ingest.place", "is far"),
        (make_item(bbox=[7, 50, 8]), "catalog.invalid", "bbox"),
        (make_item(bbox="x"), "catalog.invalid", 'bbox: "x" is not of type "array"'),
        (make_item(properties=[]), "catalog.invalid", "properties: [] is not of type"),
        (make_item(links={}), "catalog.invalid", "links: {} is not of type"),
        (make_item(links=["x"]), "catalog.invalid", "links.1"),
        (make_item(assets=[]), "catalog.invalid", "assets"),
        (make_item(assets={"a": {}}), "catalog.invalid", 'assets.a: "href" is a required property'),
        (asset("red.tif"), "ingest.relative", "assets.red: the address 'red.tif' is relative"),
        (asset("file:///etc/passwd"), "ingest.href", "of another kind"),
        (asset("javascript:alert(1)"), "ingest.href", "of another kind"),
        (asset("data:text/plain,x"), "ingest.href", "of another kind"),
        (asset("silver://jobs/1/a.tif"), "ingest.href", "of another kind"),
        (
            asset("https://user:secret@example.com/a.tif"),
            "ingest.href",
            "'https://***@example.com/a.tif' can't be published",
        ),
        (asset("https:///a.tif"), "ingest.href", "names no host"),
        (asset("https://example.com/a b.tif"), "ingest.href", "blanks"),
        (asset("https://[x/a.tif"), "ingest.href", "can't be published"),
        (asset(f"https://example.com/{'a' * 9000}"), "ingest.href", "more than 8192"),
    ],
)
def test_c1_what_is_wrong_with_an_item_is_said_with_a_code(item: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        check_item(item, Rules())
    assert refused.value.code == code
    assert said in refused.value.message
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("lons", "box"),
    [
        ((7, 8), [7.05, 50.05, 7.95, 50.95]),
        ((7, 8), [-180, -90, 180, 90]),
        ((7, 8), [0, 0, 0, 100, 80, 1000]),
        ((179, -179), [179, 50, -179, 51]),
        ((179, -179), [179.05, 50, -179.05, 51]),
        ((179.95, 180), [-180, 50, -179, 51]),
        ((179, -179), [-180, 50, 180, 51]),
        ((179, -179), [-180, 50.05, 180, 50.95]),
    ],
)
def test_c1_a_box_that_is_rounded_or_wide_or_across_180_degrees_is_accepted(
    lons: tuple[float, float], box: list[float]
) -> None:
    shape = {"type": "MultiPoint", "coordinates": [[lon, lat] for lon in lons for lat in (50, 51)]}
    check_item(make_item(geometry=shape, bbox=box), Rules())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "Expecting property name"),
        (b"[1]", "not an object"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1e999}', "which JSON can't hold"),
        (b'{"a": 1, "a": 2}', "the key 'a' twice"),
        (b'{"a": "\\u0000"}', "U+0000"),
        (b'{"a": "\\ud800"}', "U+D800"),
        (b'{"a": "\xff"}', "utf-8"),
        (b'{"a": "\xed\xa0\x80"}', "U+D800"),
        ('{"a": "\\ud800"}'.encode("utf-16"), "U+D800"),
        (b'{"a": 1234567890123456789012}', "64-bit"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested deeper than 64"),
        (b"[" * 200_000, "nested deeper than 64"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "Exceeds the limit"),
        (b'{"a": "' + b"x" * 5_000 + b'"}', "at most 4096"),
    ],
)
def test_s7_a_hostile_document_is_refused_before_anything_looks_into_it(text: bytes, said: str) -> None:
    with pytest.raises(InputError) as refused:
        write_document(parse_item(text, 1_000 if said != "at most 4096" else 4))
    assert said in refused.value.message


def test_g9_mistakes_in_the_inputs_of_an_ingest_are_named_by_the_inputs() -> None:
    given: dict[str, Json] = {
        "source": "bronze://a.json",
        "collection": "a/b",
        "base_url": "https://ann:secret@example.com/",
    }
    with pytest.raises(InvalidParameters) as refused:
        load_plugins([]).declaration("stac_ingest").check(given)
    collection, base_url = sorted(map(str, refused.value.mistakes), reverse=True)
    assert collection.startswith("collection is refused: 'a/b' is not a valid id")
    assert base_url.startswith("base_url is refused: 'https://***@example.com/' is not an absolute URL")


def test_addresses_of_assets_are_kept_or_resolved_and_structural_links_are_dropped() -> None:
    hrefs = ["https://x.org/a", "s3://bucket/a", "gs://bucket/a", "az://c/a", "abfs://c@account.dfs.core.windows.net/a"]
    kept = check_item(make_item(assets={str(number): {"href": href} for number, href in enumerate(hrefs)}), Rules())
    assert [each["href"] for each in kept["assets"].values()] == hrefs  # type: ignore[union-attr,index,call-overload]

    links = [{"rel": "self", "href": "https://x.org/c/a.json"}, {"rel": "about", "href": "../about.html"}]
    nested = {"red": {"href": "./a.tif", "alternate": {"s3": {"href": "s3://bucket/a.tif"}}}}
    own: Any = check_item(
        make_item(links=links, assets=nested), Rules(bases=Bases("https://other.org", "bronze://in/"))
    )
    assert own["assets"]["red"]["href"] == "https://x.org/c/a.tif"
    assert [(link["rel"], link["href"]) for link in own["links"]][1:] == [("about", "https://x.org/about.html")]
    given: Any = check_item(
        asset("../b.tif"), Rules(bases=Bases("https://y.org/d", "bronze://in/")), "bronze://in/e/f/a.json"
    )
    assert given["assets"]["red"]["href"] == "https://y.org/d/e/b.tif"


def test_items_of_stac_1_0_join_a_given_collection_and_unknown_extensions_are_a_choice() -> None:
    item = make_item(stac_version="1.0.0", stac_extensions=[UNKNOWN]) | {"pgstac:base_item": 1}
    made = check_item(item, Rules(collection="ours"))
    assert (made["stac_version"], made["collection"], "pgstac:base_item" in made) == ("1.1.0", "ours", False)
    with pytest.raises(InputError, match="is unknown"):
        check_item(item, Rules(accept_unknown=False))


def test_c2_a_collection_loses_its_extent_and_its_structural_links() -> None:
    made: Any = check_collection(make_collection(links=[{"rel": "item", "href": "a.json"}]), Rules())
    assert (made["links"], made["extent"]["spatial"]["bbox"]) == ([], [[-180, -90, 180, 90]])
    with pytest.raises(InputError, match="license"):
        check_collection({**make_collection(), "license": 5}, Rules())


VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1.5,
    1e300,
    "",
    "x",
    "https://x.org",
    [],
    [[]],
    [None],
    {},
    {"a": 1},
    [[1]],
    {"href": "https://x.org"},
)


def test_s7_an_item_with_any_value_changed_is_accepted_or_refused() -> None:
    """No document makes the check itself fail."""
    random, text = Random(7), json.dumps(make_item(stac_extensions=sorted(EXTENSIONS.values())))
    for _ in range(1_000):
        item = json.loads(text)
        for _ in range(random.randint(1, 3)):
            change(item, random)
        with suppress(InputError):
            write_document(check_item(item, Rules(bases=Bases("https://x.org/", "bronze://in/")), "bronze://in/a.json"))


def change(value: Any, random: Random) -> None:
    """Replace a value anywhere in a document, or add one."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = random.choice([*keys, *(["proj:shape", "alternate"] if isinstance(value, dict) else [])] or [None])
    if key is None:
        return
    inner = value[key] if not isinstance(value, dict) or key in value else None
    if isinstance(inner, dict | list) and inner and random.random() < 0.7:
        change(inner, random)
    else:
        value[key] = deepcopy(random.choice(VALUES))
