"""Fields that the catalog adds to the items of pgstac."""

from typing import Any

from anabranch.serving.stac.links import add_tiles
from anabranch.serving.stac.queryables import find_common

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
