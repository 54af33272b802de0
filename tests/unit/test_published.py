"""Readers see names of files, never addresses."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.postgres.store.published.files import PublishedFile
from anabranch.api.routes.files import parse_range
from anabranch.contract.published_links import find_addresses, name_files
from anabranch.errors import AnabranchError, Changed, Gone
from anabranch.serving.objects import Remote, TierObjects
from anabranch.serving.published import FilesByItem
from anabranch.serving.stac.pool import Catalog
from anabranch.serving.tiles.assets import Assets, rasters_of
from anabranch.storage.tiers import Storage

COG = PublishedFile("my scene.tif", "silver://jobs/ab/x.tif", "image/tiff", 3, "00", "ab")


def test_an_address_becomes_a_link_wherever_it_stands() -> None:
    document = {"assets": {"data": {"href": COG.address}}, "properties": {"made": [COG.address, 5, None]}}
    link = "http://here/files/p/ab/my%20scene.tif"
    assert set(find_addresses(document)) == {COG.address}
    assert name_files(document, {COG.address: COG}, "http://here") == {
        "assets": {"data": {"href": link}},
        "properties": {"made": [link, 5, None]},
    }


def test_p6_what_is_not_published_leaves_with_its_asset_or_link() -> None:
    asset = {"href": "silver://jobs/draft.tif", "title": "Draft"}
    document = {"assets": {"draft": asset}, "links": [{"rel": "via", **asset}], "properties": {"a": "gold://x", "b": 1}}
    assert name_files(document, {}, "http://here") == {"assets": {}, "links": [], "properties": {"b": 1}}


def test_text_of_people_stays_as_it_is() -> None:
    river = "silver://my favourite river"
    texts = {"title": COG.address, "description": "gold://mine", "keywords": [river, "golden://x"], "river": river}
    document = {**texts, "properties": texts, "assets": {"title": {"href": COG.address, "title": river}}}
    assert set(find_addresses(document)) == {COG.address}
    named = name_files(document, {COG.address: COG}, "")
    assert named == {**document, "assets": {"title": {"href": "/files/p/ab/my%20scene.tif", "title": river}}}


def test_p6_an_href_is_an_address_with_spaces_too() -> None:
    spaced = PublishedFile("my scene.tif", "silver://jobs/ab/my scene.tif", "image/tiff", 3, "00", "ab")
    document = {"assets": {"data": {"href": spaced.address}, "draft": {"href": "silver://my draft.tif"}}}
    assert set(find_addresses(document)) == {spaced.address, "silver://my draft.tif"}
    named = name_files(document, {spaced.address: spaced}, "")
    assert named == {"assets": {"data": {"href": "/files/p/ab/my%20scene.tif"}}}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, None),
        ("bytes=0-4", range(5)),
        ("bytes=5-", range(5, 10)),
        ("bytes=-3", range(7, 10)),
        ("bytes=-30", range(10)),
        ("bytes=8-99", range(8, 10)),
        ("bytes=0-" + "9" * 5_000, range(10)),
        ("bytes=-" + "9" * 5_000, range(10)),
        ("bytes=" + "0" * 5_000 + "3-4", range(3, 5)),
        ("bytes=-", None),
        ("bytes=4-2", None),
        ("bytes=0-1,4-5", None),
        ("items=0-4", None),
        ("bytes=٣-٤", None),
    ],
)
def test_a_range_is_what_the_standard_says(text: str | None, wanted: range | None) -> None:
    assert parse_range(text, 10) == wanted


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=99-100", "bytes=-0", f"bytes={'9' * 5_000}-"])
def test_a_range_beyond_the_file_is_empty(text: str) -> None:
    found = parse_range(text, 10)
    assert found is not None
    assert not found


BAD = ["../secret", "a/../../secret", "/etc/passwd", "a//b", "a\\b", "a\x00b", ".", "link/secret", "gone"]


@pytest.mark.parametrize("path", BAD)
async def test_s3_no_address_leaves_its_tier_and_none_is_shown(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "silver").mkdir()
    (tmp_path / "silver" / "link").symlink_to(tmp_path)
    objects = TierObjects(Storage({"silver": Folder(tmp_path / "silver", "silver")}))
    with pytest.raises(AnabranchError) as raised:
        await objects.size(f"silver://{path}")
    assert (raised.value.code, raised.value.message) == ("file.lost", "a published file is missing from its tier")


def test_the_raster_that_is_data_comes_first() -> None:
    tiff = {"type": "image/tiff; application=geotiff"}
    assets = {
        "look": {**tiff, "href": "silver://look.tif", "roles": ["visual"]},
        "page": {"type": "text/html", "href": "silver://page.html"},
        "far": {**tiff, "href": "https://elsewhere.example/x.tif"},
        "data": {**tiff, "href": "silver://data.tif", "roles": ["data"]},
    }
    assert rasters_of({"assets": assets}) == {"data": "silver://data.tif", "look": "silver://look.tif"}


def test_p5_two_items_show_the_versions_of_a_file_in_place_that_they_were_made_from() -> None:
    address = "bronze://archive/a.tif"
    files = [
        PublishedFile("a.tif", address, "image/tiff", 3, None, publication, f"{collection}/a", version=publication)
        for collection, publication in (("old", "1"), ("new", "2"))
    ]
    by_item = FilesByItem(files)
    found = {key: by_item.find(key) for key in ("new/a", "old/a", "other/a")}
    assert {key: [file.publication for file in ours.values()] for key, ours in found.items()} == {
        "new/a": ["2"], "old/a": ["1"], "other/a": [],
    }  # fmt: skip


class Shown:
    """These files are published, whatever is asked for."""

    def __init__(self, *files: PublishedFile) -> None:
        self._files = files

    async def find_all(self, _: Collection[str]) -> Sequence[PublishedFile]:
        return self._files


def assets_over(*files: PublishedFile, allowed: bool = False) -> Assets:
    published: Any = Shown(*files)
    return Assets(Catalog("", 1), published, TierObjects(Storage({})), draws_in_place=allowed)


class Replaced:
    """A catalog whose item is replaced after it was read once."""

    def __init__(self, *documents: Any) -> None:  # of STAC
        self._documents = list(documents)

    async def item(self, *_: str) -> Any:
        return self._documents.pop(0) if len(self._documents) > 1 else self._documents[0]


async def test_p5_the_rasters_of_an_item_are_found_while_it_is_replaced() -> None:
    old, new = (
        {"collection": "c", "id": "i", "assets": {"data": {"type": "image/tiff", "href": href}}}
        for href in ("silver://jobs/old.tif", COG.address)
    )
    catalog: Any = Replaced(old, new)
    published: Any = Shown(replace(COG, key="c/i"))
    found = await Assets(catalog, published, TierObjects(Storage({})), draws_in_place=False).find("c", "i")
    assert found.addresses == {"data": COG.address}


@pytest.mark.parametrize("allowed", [True, False])
async def test_s4_a_file_in_place_is_drawn_only_while_that_is_allowed(allowed: bool) -> None:
    mine, copied = replace(COG, address="bronze://a.tif", key="c/i", version="v1"), replace(COG, key="c/i")
    item = {
        "collection": "c", "id": "i",
        "assets": {name: {"type": "image/tiff", "href": file.address} for name, file in (("a", mine), ("b", copied))},
    }  # fmt: skip
    (found,) = await assets_over(mine, copied, allowed=allowed).read([item])
    assert (set(found.addresses), found.plain) == (({"a", "b"}, ()) if allowed else ({"b"}, ("a",)))


@pytest.mark.parametrize("assets", [{}, {"assets": None}, {"assets": []}, {"assets": {"a": None}}])
async def test_an_item_of_another_program_without_assets_has_no_rasters(assets: dict[str, object]) -> None:
    (found,) = await assets_over().read([{"collection": "c", "id": "i", **assets}])
    assert (found.addresses, found.plain) == ({}, ())


def test_s7_the_files_of_a_page_are_gone_through_once_for_all_of_its_items() -> None:
    shared, other = replace(COG, key="a/1", predecessor=4), replace(COG, key="a/2", publication="cd")
    files = FilesByItem(file for file in (shared, other))  # can be read once
    assert {key: files.find(key)[COG.address].publication for key in ("a/1", "a/2")} == {"a/1": "ab", "a/2": "cd"}
    assert COG.address in files.find("b/1")
    assert [files.find_predecessor(key) for key in ("a/1", "a/2", "b/1")] == [4, None, None]


async def test_p5_only_one_version_of_a_file_in_place_is_read(tmp_path: Path) -> None:
    storage = Storage({"bronze": Folder(tmp_path, "bronze")})
    storage.put("bronze://a.tif", b"first")
    version = storage.stat("bronze://a.tif").tag
    objects = TierObjects(storage)
    remote = await objects.locate("bronze://a.tif", version)
    assert isinstance(remote, Remote)
    assert remote.open().read() == b"first"

    storage.put("bronze://a.tif", b"other")
    assert await objects.size("bronze://a.tif") == 5
    for ask in (objects.size, objects.locate):
        with pytest.raises(Gone):
            await ask("bronze://a.tif", version)
    with pytest.raises(Changed):
        remote.open().read()
    with pytest.raises((Changed, Gone)):
        [piece async for piece in objects.read("bronze://a.tif", 0, 5, version)]
    storage.delete(["bronze://a.tif"])
    with pytest.raises(Gone):
        await objects.size("bronze://a.tif", version)
