"""Searches are checked against limits before a third-party parser sees them (TS1)."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import chain, count, takewhile
from typing import Any

import pytest

from anabranch.errors import InputError
from anabranch.geo.boxes import Box
from anabranch.serving.stac.links import add_tiles
from anabranch.serving.stac.queryables import find_common
from anabranch.serving.stac.search.bounds import BOUNDS
from anabranch.serving.stac.search.cql2 import check_filter, check_text, parse_filter
from anabranch.serving.stac.search.geojson import check_bbox, check_geometry

# Each grows with a number; all of them took cql2 seconds or gigabytes, or killed it.
HOSTILE: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "(" * n + "a=1" + ")" * n,
    "open brackets": lambda n: "(" * n,
    "open nots": lambda n: "not (" * n,
    "nots": lambda n: "not " * n + "a=1",
    "sum": lambda n: "a=" + "+".join(["1"] * n),
    "power": lambda n: "a=" + "^".join(["1"] * n),
    "comparisons": lambda n: "=".join(["a"] * n),
    "minuses": lambda n: "a=" + "-" * n + "1",
    "minuses apart": lambda n: "a=" + "- " * n + "1",
    "calls": lambda n: "a=" + "f(" * n + "1" + ")" * n,
    "long in brackets": lambda n: "(" * 8 + "+".join(["1"] * n) + "+" + ")" * 8,
    "ands": lambda n: " and ".join(["a=1"] * n),
    "betweens": lambda n: " and ".join(["a between 1 and 2"] * n),
    "strings": lambda n: "a in (" + ",".join(["'x'"] * n) + ")",
    "brackets after strings": lambda n: "(')'" * n,
}
MEASURE = """
import json, resource, sys, time
import cql2
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
worst = (0.0, "")
for text in json.load(sys.stdin):
    began = time.process_time()
    try:
        cql2.parse_text(text).to_json()
    except Exception:
        pass
    worst = max(worst, (time.process_time() - began, text))
print(json.dumps([*worst, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before]))
"""
PIECES = [
    "(",
    ")",
    "not ",
    "-",
    " - ",
    "a",
    "1",
    "'x'",
    "=",
    "<",
    "+",
    "*",
    "^",
    " and ",
    " or ",
    " in ",
    ",",
    "f(",
    " ",
]
PIECES += [
    "between ",
    "casei(",
    "POINT(1 1)",
    "POLYGON((",
    "1 1",
    " is null",
    '"b"',
    " like ",
    "DATE('2026-01-01')",
    "||",
]


def is_taken(text: str) -> bool:
    try:
        check_text(text)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("kind", HOSTILE)
def test_ts1_text_that_exhausts_its_parser_is_refused(kind: str) -> None:
    assert not any(is_taken(HOSTILE[kind](n)) for n in (1_000, 4_000, 20_000))


def test_ts1_what_passes_the_scanner_costs_its_parser_little() -> None:
    """The largest accepted filter of each kind, and random texts, in a process with little memory."""
    draw = random.Random(13)
    drawn = ["".join(draw.choices(PIECES, k=draw.randint(1, 120))) for _ in range(2_000)]
    closed = [text + ")" * (text.count("(") - text.count(")")) for text in drawn]
    largest = [list(takewhile(is_taken, map(grow, count(1))))[-1:] for grow in HOSTILE.values()]
    texts = [text for text in chain(closed, *largest) if is_taken(text)]
    assert len(texts) > 500
    command = [sys.executable, "-c", MEASURE]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seconds, slowest, kilobytes = json.loads(done.stdout)
    assert seconds < 0.1, slowest
    assert kilobytes < 20_000


@pytest.mark.parametrize(
    "text",
    [
        "eo:cloud_cover < 10",
        "_order = 'it''s _in' and _limit in (1, 2) or _true is null",
        "\"a b\" = 'it''s' and not (b in (1, -2.5, 3) or c is not null)",
        "((((((((a=1))))))))",
        "id in (" + ",".join(f"'scene-{number}'" for number in range(250)) + ")",
        "s_intersects(geometry, POLYGON((" + ",".join(f"-{n}.5 -{n % 80}.25" for n in range(1, 170)) + ",-1.5 -1.25)))",
        " and ".join(f"a{n} between 1 and 2" for n in range(20)),
    ],
)
def test_ordinary_filters_are_parsed(text: str) -> None:
    assert parse_filter(text, "cql2-text")


@pytest.mark.parametrize("number", ["9007199254740993", "9223372036854775807", "-9007199254740995", "1" * 40])
def test_integers_that_text_would_round_are_refused(number: str) -> None:
    for text in (f"a={number}", f"a in (1,{number})", f"b = 'x' and a > {number}"):
        with pytest.raises(InputError) as caught:
            parse_filter(text, "cql2-text")
        assert caught.value.remedy == "Send the filter as CQL2 JSON."
    exact = f'{{"op": "=", "args": [{{"property": "a"}}, {number}]}}'
    assert parse_filter(exact, "cql2-json") == {"op": "=", "args": [{"property": "a"}, int(number)]}
    for text in (f"a = '{number}'", "a = 9007199254740992", "a = 9007199254740993.5", f'"{number}" = 1'):
        assert parse_filter(text, "cql2-text")


@pytest.mark.parametrize(
    "text", ["a", "1", "true", "a+1", "casei(a)", "a=", "'", "(a=1", "", "{}", '{"op": "=", "args": []}']
)
def test_what_is_no_condition_in_text_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_filter(text, "cql2-text")


def nested(depth: int) -> dict[str, object]:
    found: dict[str, object] = {"op": "=", "args": [{"property": "a"}, 1]}
    for _ in range(depth):
        found = {"op": "not", "args": [found]}
    return found


@pytest.mark.parametrize(
    "given",
    [
        nested(BOUNDS.depth),
        {"op": "and", "args": [nested(1)] * BOUNDS.operators},
        {"op": "in", "args": [{"property": "a"}, list(range(2_000))]},
        {"op": "=", "args": [{"property": "a"}, "x" * 2_000]},
        {"op": "s_intersects", "args": [{"property": "geometry"}, {"type": "Point", "coordinates": [1e308, 0]}]},
        {"property": "a"},
        [],
        None,
    ],
)
def test_ts1_json_is_held_to_the_bounds_of_text(given: object) -> None:
    check_filter(nested(3))
    with pytest.raises(InputError):
        check_filter(given)


@pytest.mark.parametrize(
    "box",
    [
        (float("nan"), 0, 1, 1),
        (0, 0, float("inf"), 1),
        (0, 2, 1, 1),
        (0, 0, 1),
        (-181, 0, 0, 1),
        (0, 0, 10**400, 1),
        "box",
    ],
)
def test_ts5_a_box_is_finite_and_on_earth(box: object) -> None:
    check_bbox([170, -10, -170, 10])
    with pytest.raises(InputError):
        check_bbox(box)


@pytest.mark.parametrize(
    "geometry",
    [
        {"type": "Point", "coordinates": [1]},
        {"type": "Point", "coordinates": [190, 0]},
        {"type": "LineString", "coordinates": [[0, 0]] * 6_000},
        {"type": "MultiPolygon", "coordinates": [[[[0, 0]] * 3_000]] * 2},
        {"type": "Polygon", "coordinates": [[0, 0]]},
        {"type": "GeometryCollection", "geometries": [{"type": "GeometryCollection", "geometries": []}]},
        {"type": ["Point"]},
        {},
    ],
)
def test_geometries_are_bounded(geometry: object) -> None:
    check_geometry({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}, "intersects")
    with pytest.raises(InputError):
        check_geometry(geometry, "intersects")


@pytest.mark.parametrize(
    ("bbox", "areas"),
    [
        ([5.0, 40.0, 15.0, 50.0], [(5.0, 40.0, 15.0, 50.0)]),
        ([5.0, 40.0, 0.0, 15.0, 50.0, 10.0], [(5.0, 40.0, 15.0, 50.0)]),
        ([175.0, 5.0, -175.0, 11.0], [(175.0, 5.0, 180.0, 11.0), (-180.0, 5.0, -175.0, 11.0)]),
        ([175.0, 5.0, 0.0, -175.0, 11.0, 9.0], [(175.0, 5.0, 180.0, 11.0), (-180.0, 5.0, -175.0, 11.0)]),
    ],
)
def test_the_area_of_a_box_is_cut_at_180_degrees(bbox: list[float], areas: Any) -> None:
    found = Box.of(bbox).to_geojson()
    assert found["type"] == "MultiPolygon"
    rings = [polygon[0] for polygon in found["coordinates"]]
    assert [(*map(min, zip(*ring, strict=True)), *map(max, zip(*ring, strict=True))) for ring in rings] == areas


ROOT = "https://data.example.org/maps"


def test_what_all_collections_have_of_one_type_can_be_asked_for() -> None:
    scenes: list[dict[str, Any]] = [{"gsd": 10, "run": 7, "platform": "drone"}, {"gsd": 0.5, "run": 8}]
    heights: list[dict[str, Any]] = [{"gsd": 30, "run": "7"}]
    assert find_common([scenes, heights]) == {"gsd": {"title": "gsd", "type": "number"}}
    assert list(find_common([scenes])) == ["gsd", "platform", "run"]
    assert find_common([]) == {}


def item(href: str) -> dict[str, Any]:
    return {"id": "a", "collection": "b", "links": [], "assets": {"data": {"type": "image/tiff", "href": href}}}


def test_only_rasters_of_ours_have_tiles() -> None:
    ours, theirs = item(f"{ROOT}/files/a.tif"), item("https://elsewhere.example.org/a.tif")
    for each in (ours, theirs):
        add_tiles(each, ROOT)
    assert [link["rel"] for link in ours["links"]] == ["tilejson"]
    assert theirs["links"] == []
