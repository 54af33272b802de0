"""Sets of rasters: which files, under which ids, in which batches; and how alike they are."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from anabranch.errors import Permanent
from anabranch.plugins.raster.collections.compare import compare_facts
from anabranch.plugins.raster.collections.handler_models import CheckParams, ConvertParams
from anabranch.plugins.raster.collections.handlers import check_rasters, convert_rasters
from anabranch.plugins.raster.collections.listing import find_sources, name_items, pack_batches
from anabranch.plugins.raster.collections.models import ListedFile, RasterFacts
from anabranch.plugins.raster.collections.request import CollectionRequest
from anabranch.plugins.raster.models import Kind
from anabranch.plugins.raster.request import NamedSource
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.testing import FakeContext
from tests.support.rasters import hills, make_raster

MB = 2**20


def facts(name: str = "a", **changes: Any) -> RasterFacts:
    alike = {"bands": 1, "dtype": "float32", "crs": "EPSG:32633", "pixel_size": (10.0, 10.0), "kind": Kind.DEM}
    return RasterFacts.model_validate({"source": f"bronze://{name}.tif", "item_id": name, **alike, **changes})


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, {}),
        ({"bands": 3}, {"bands": ("3", "1")}),
        ({"dtype": "int16"}, {"dtype": ("int16", "float32")}),
        ({"crs": "EPSG:32634"}, {"crs": ("EPSG:32634", "EPSG:32633")}),
        ({"crs": "EPSG:4326", "pixel_size": (1e-4, 1e-4)}, {"crs": ("EPSG:4326", "EPSG:32633")}),
        ({"pixel_size": (12.0, 10.0)}, {}),
        ({"pixel_size": (8.0, 8.0)}, {}),
        ({"pixel_size": (12.1, 10.0)}, {"pixel_size": ("12.1 x 10", "10 x 10")}),
        ({"pixel_size": (10.0, 30.0)}, {"pixel_size": ("10 x 30", "10 x 10")}),
        ({"kind": Kind.CONTINUOUS}, {}),
        ({"kind": Kind.VEGETATION_INDEX}, {}),
        ({"kind": Kind.CATEGORICAL}, {"kind": ("categorical", "measured values")}),
        ({"bands": 3, "kind": Kind.RGB}, {"bands": ("3", "1"), "kind": ("rgb", "measured values")}),
    ],
)
def test_a_raster_that_differs_from_the_majority_is_named_with_what_differs(
    changes: dict[str, Any], differs: dict[str, tuple[str, str]]
) -> None:
    found = compare_facts([facts("odd", **changes), facts("a"), facts("b")], 0.2)
    assert (found.compared, found.majority["pixel_size"]) == (3, "10 x 10")
    assert {each.property: (each.value, each.majority) for odd in found.odd for each in odd.differs} == differs
    assert {odd.item_id for odd in found.odd} == ({"odd"} if differs else set())


def test_colours_are_compared_by_kind_and_of_equally_many_the_first_are_the_majority() -> None:
    found = compare_facts([facts("a", kind=Kind.NIR, bands=4), facts("b", kind=Kind.RGBA, bands=4)], 0.2)
    assert [(odd.item_id, odd.differs[0].majority) for odd in found.odd] == [("b", "nir")]
    assert compare_facts([facts()], 0).odd == ()
    assert compare_facts([], 0.2).compared == 0


def sources(*given: str | tuple[str, str]) -> list[NamedSource]:
    return [
        NamedSource(source=one) if isinstance(one, str) else NamedSource(source=one[0], item_id=one[1]) for one in given
    ]


def test_equal_base_names_get_the_name_of_their_folder_or_a_hash() -> None:
    assert name_items(sources("bronze://in/north.tif", "bronze://in/south 2.tif")) == ["north", "south-2"]
    assert name_items(sources("bronze://x/a/dem.tif", "bronze://x/b/dem.tif", "bronze://x/dem2.tif")) == [
        "a-dem", "b-dem", "dem2",
    ]  # fmt: skip
    same_folder = name_items(sources("bronze://1/a/dem.tif", "bronze://2/a/dem.tif", "bronze://b/dem.tif"))
    assert (len(set(same_folder)), same_folder[2]) == (3, "b-dem")
    assert all(item.startswith("dem-") for item in same_folder[:2])
    chosen = name_items(sources(("bronze://a/dem.tif", "dem"), "bronze://b/dem.tif"))
    assert chosen == ["dem", "b-dem"]
    with pytest.raises(Permanent, match="the same item_id: x"):
        name_items(sources(("bronze://a.tif", "x"), ("bronze://b.tif", "x")))


def test_small_files_share_a_batch_and_large_ones_don_t() -> None:
    def sizes(*given: int) -> list[list[int]]:
        files = [ListedFile(source=f"bronze://{n}.tif", item_id=str(n), size=size) for n, size in enumerate(given)]
        return [[file.size for file in batch] for batch in pack_batches(files)]

    assert sizes(MB, MB, 100 * MB, MB) == [[MB, MB], [100 * MB], [MB]]
    assert [len(batch) for batch in sizes(*[1] * 40)] == [16, 16, 8]
    assert len(sizes(*[100 * MB] * 10_000)) == 2_500


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "one of sources, source_list and folder"),
        ({"folder": "bronze://a", "sources": ["bronze://a.tif"]}, "one of sources, source_list and folder"),
        ({"sources": ["bronze://a.shp"]}, "has the extension .shp"),
        ({"sources": ["a.tif"]}, "is not an address"),
        ({"sources": [{"source": "bronze://a.tif", "item_id": "a b"}]}, "can't be the id of an item"),
        ({"folder": "bronze://a/../b"}, "can't be the path"),
        ({"folder": "bronze://a", "extensions": ["shp"]}, ".shp is not one of a supported raster format"),
        ({"folder": "bronze://a", "datetime": "yesterday"}, "not a date and time"),
    ],
)
def test_g9_a_request_that_can_t_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        CollectionRequest(collection="dems", **given)


def test_there_is_a_limit_to_the_files_of_a_set_and_each_is_listed_once(tmp_path: Path) -> None:
    ctx = FakeContext(tmp_path, settings=(RasterSettings(),))
    twice = CollectionRequest(collection="dems", sources=tuple(sources("bronze://a.tif", "bronze://a.tif")))
    with pytest.raises(Permanent, match="listed twice"):
        find_sources(twice, ctx, 2)
    with pytest.raises(Permanent, match="more than 1 files") as refused:
        find_sources(twice, ctx, 1)
    assert refused.value.code == "raster.too_many"


def checked_batch(ctx: FakeContext, *names: str) -> ConvertParams:
    files = tuple(ListedFile(source=f"bronze://in/{name}.tif", item_id=name) for name in names)
    return ConvertParams(part=check_rasters(CheckParams(collection="dems", files=files), ctx).part)


def test_w5_a_batch_that_is_tried_again_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "bronze" / "in").mkdir(parents=True)
    for number, name in enumerate("abc"):
        make_raster(tmp_path / "bronze" / "in" / f"{name}.tif", hills(40, 40 + number))
    ctx = FakeContext(tmp_path, settings=(RasterSettings(),))
    params = checked_batch(ctx, "a", "b", "c")
    made = convert_rasters(params, ctx)
    assert (made.failed, [output.name for output in made.outputs][:3]) == (
        0, ["a.tif", "a.thumbnail.png", "a.report.json"],
    )  # fmt: skip
    assert convert_rasters(params, ctx.next_attempt()).outputs == made.outputs
    ctx.tiers.put(made.outputs[3].href, b"cut")
    again = convert_rasters(params, ctx.next_attempt())
    assert again.outputs[:3] == made.outputs[:3]
    assert [new.href != old.href for new, old in zip(again.outputs[3:], made.outputs[3:], strict=True)] == [True] * 6


def test_a_raster_that_is_too_large_for_one_cog_is_named(tmp_path: Path) -> None:
    (tmp_path / "bronze" / "in").mkdir(parents=True)
    make_raster(tmp_path / "bronze" / "in" / "a.tif", hills(40, 40))
    ctx = FakeContext(tmp_path, settings=(RasterSettings(raster_single_pixels=1599),))
    params = CheckParams(collection="dems", files=(ListedFile(source="bronze://in/a.tif", item_id="a"),))
    found = check_rasters(params, ctx)
    path = ctx.work.fetch(found.part)
    assert path is not None
    assert (found.failed, '"code":"raster.too_large"' in path.read_text()) == (1, True)
