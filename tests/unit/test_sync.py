"""What a folder holds is compared with what was published of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from anabranch.plugins.stac.names import is_item_id
from anabranch.plugins.storage.sync.compare import Known, Wanted, compare, name_item
from anabranch.storage.tiers import Stat

NOW = datetime(2026, 3, 21, 10, 15, tzinfo=UTC)
ANY = Wanted.of([], 100)
A = "bronze://in/a.tif"


def listed(*names: str, age: timedelta = timedelta(days=1), tag: str = "1") -> dict[str, Stat]:
    return {f"bronze://{name}": Stat(name, 1, NOW - age, tag) for name in names}


def known(address: str, **versions: str) -> dict[str, Known]:
    """What was published of a file; versions by the extensions of the files."""
    stem = address.removesuffix(".tif")
    by_address = {f"{stem}.{extension}": tag for extension, tag in versions.items()}
    return {name_item(address): Known(name_item(address), 3, True, address, by_address, {address: "ab" * 32})}


def statuses(files: dict[str, Stat], published: dict[str, Known], wanted: Wanted = ANY) -> dict[str, str]:
    return {each.address: each.status.value for each in compare(files, published, NOW, wanted)}


@pytest.mark.parametrize(
    ("age", "status"),
    [(timedelta(seconds=9), "writing"), (timedelta(seconds=10), "new"), (timedelta(minutes=-5), "writing"),
     (timedelta(days=-300), "new")],
)  # fmt: skip
def test_a_file_that_was_just_written_is_left(age: timedelta, status: str) -> None:
    assert statuses(listed("in/a.tif", age=age), {}) == {A: status}


@pytest.mark.parametrize(
    ("versions", "status"),
    [({"tif": "1", "tfw": "1"}, "unchanged"), ({"tif": "1", "tfw": "0"}, "changed"), ({"tif": "1"}, "changed"),
     ({"tif": "1", "tfw": "1", "prj": "1"}, "changed")],
)  # fmt: skip
def test_a_sidecar_that_came_changed_or_left_is_a_change(versions: dict[str, str], status: str) -> None:
    assert statuses(listed("in/a.tif", "in/a.tfw", "in/b.prj"), known(A, **versions)) == {A: status}


@pytest.mark.parametrize(
    ("versions", "hashes"),
    [({"tif": "0", "tfw": "1"}, {A: "ab" * 32}), ({"tif": "0", "tfw": "0"}, {}), ({"tif": "0"}, {}),
     ({"tif": "0", "tfw": "1", "prj": "1"}, {})],
)  # fmt: skip
def test_content_may_be_the_same_where_all_hashes_of_other_versions_are_known(
    versions: dict[str, str], hashes: dict[str, str]
) -> None:
    (found,) = compare(listed("in/a.tif", "in/a.tfw"), known(A, **versions), NOW, ANY)
    assert (found.status.value, found.sha256) == ("changed", hashes)


def test_an_item_of_a_file_that_is_gone_has_vanished_unless_it_is_not_its_own() -> None:
    other = {"dem": Known("dem", 1, True, "bronze://in/b.tif", {}, {})}
    assert statuses({}, known(A, tif="1") | other) == {A: "vanished"}


@pytest.mark.parametrize(("tag", "status"), [("1", "withdrawn"), ("2", "changed")])
def test_a_withdrawn_item_comes_back_only_with_another_file(tag: str, status: str) -> None:
    withdrawn = {item: replace(each, shown=False) for item, each in known(A, tif="1").items()}
    assert statuses(listed("in/a.tif", tag=tag), withdrawn) == {A: status}
    assert statuses({}, withdrawn) == {}


def test_what_is_above_the_limit_is_left_for_the_next_run() -> None:
    files = listed("in/a.tif", "in/b.tif", "in/c.jp2", "in/d.TIF", "in/e.txt", "in/f.tif")
    published = known(A, tif="1") | known("bronze://in/f.tif", tif="1")
    assert statuses(files, published, Wanted.of(["tif"], 1)) == {
        A: "unchanged", "bronze://in/b.tif": "new", "bronze://in/d.TIF": "left", "bronze://in/f.tif": "unchanged",
    }  # fmt: skip


def test_every_address_has_an_id_of_its_own() -> None:
    addresses = [A, "bronze://in/a.jp2", "bronze://in/A.tif", "bronze://other/a.tif", "bronze://a b.tif",
                 "bronze://a-b.tif", "bronze://ö.tif", f"bronze://{'x' * 300}.tif"]  # fmt: skip
    ids: list[Any] = [name_item(address) for address in addresses]
    assert len(set(ids)) == len(addresses)
    assert all(map(is_item_id, ids))
