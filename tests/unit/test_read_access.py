"""What a task may read is decided by paths where they show it, and by one look into the database where they don't."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from anabranch.errors import InputError
from anabranch.storage.addresses import parse_address, parse_folder
from anabranch.storage.read_access import ReadAccess, ReadRights
from anabranch.storage.tiers import Stat

HASH = "ab" * 32
NOW = datetime(2024, 1, 1, tzinfo=UTC)


class Rights:
    """The rights of a platform, and what was asked."""

    def __init__(self, **rights: object) -> None:
        self.found = ReadRights(**rights)  # type: ignore[arg-type]  # as the tests give them
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, platform: str, job_id: str, tier: str, keys: Sequence[str]) -> ReadRights:
        self.asked.append(tuple(keys))
        return self.found


def read(access: ReadAccess, *addresses: str) -> list[bool]:
    return [can_read(access, address) for address in addresses]


def can_read(access: ReadAccess, address: str) -> bool:
    try:
        access.check(parse_address(address))
    except InputError as error:
        return error.code != "storage.not_readable"
    return True


def test_own_outputs_and_uploads_need_no_look_into_the_database() -> None:
    rights = Rights()
    ours = ["silver://jobs/j1/n/0/1-00000000/a.tif", "gold://jobs/j1/x", f"bronze://uploads/ddh/{HASH}/a.tif"]
    assert all(read(ReadAccess("ddh", "j1", rights), *ours))
    assert all(read(ReadAccess("default", "j1", rights), ours[0], f"bronze://uploads/{HASH}/a.tif"))
    assert rights.asked == []


def test_the_first_other_object_answers_for_the_folders_and_all_files_of_its_publication() -> None:
    files = {f"silver://jobs/j2/{name}": None for name in ("mosaic", "a", "b")}
    rights = Rights(folders=["bronze://ddh"], related=["j3"], files=files)
    access = ReadAccess("ddh", "j1", rights)
    assert all(read(access, *files, "silver://jobs/j3/x", "bronze://ddh/a", "bronze://ddh/b/c"))
    assert len(rights.asked) == 1
    assert read(access, "bronze://ddhx/a", "bronze://ddhx/a", "bronze://DDH/a") == [False, False, False]
    assert rights.asked[1:] == [("ddhx/a",), ("DDH/a",)]


@pytest.mark.parametrize(
    "address",
    [
        "bronze://ddh/a", "bronze://Ddh/a", f"bronze://uploads/ddh/{HASH}/a", f"bronze://Uploads/DDH/{HASH.upper()}/a",
        "silver://jobs/j2/a", "silver://Jobs/j1/a", "gold://jobs/j2", "bronze://jobs/j2/n/0/1-00000000/a",
    ],
)  # fmt: skip
def test_s1_default_reads_nothing_that_is_others_in_no_spelling(address: str) -> None:
    access = ReadAccess("default", "j1", Rights(others=["bronze://ddh"]))
    assert read(access, address, "bronze://in/a", "bronze://ddh2/a", "bronze://jobs/a") == [False, True, True, True]


def test_a_folder_that_is_listed_gives_no_uploads_and_outputs() -> None:
    access = ReadAccess("ddh", "j1", Rights(folders=["bronze://", "silver://"]))
    hidden = f"bronze://uploads/arcgis/{HASH}/a", f"bronze://uploads/{HASH}/a", "silver://jobs/j2/a"
    assert read(access, "bronze://in/a", *hidden) == [True, False, False, False]


def test_a_job_of_nobody_reads_its_own_outputs_only() -> None:
    access = ReadAccess("", "j1", Rights())
    assert read(access, "silver://jobs/j1/a", "bronze://a", f"bronze://uploads/{HASH}/a") == [True, False, False]


def test_p6_of_a_published_object_that_others_may_replace_one_version_is_readable() -> None:
    access = ReadAccess("ddh", "j1", Rights(files={"bronze://arcgis/a": "v1", "bronze://arcgis/b": "v1"}))
    assert access.check(parse_address("bronze://arcgis/a")) == "v1"
    stats = [Stat("arcgis/a", 1, NOW, "v1"), Stat("arcgis/b", 1, NOW, "v2"), Stat("arcgis/c", 1, NOW, "v1")]
    assert [stat.key for stat in access.select("bronze", stats)] == ["arcgis/a"]


@pytest.mark.parametrize(
    ("folder", "parts"),
    [
        ("bronze://", ["a-b", "a", "jobs", "uploads/ddh"]), ("bronze://a", ["a"]), ("bronze://a/b", ["a/b"]),
        ("bronze://a-", []), ("bronze://uploads", ["uploads/ddh"]), ("bronze://uploads/arcgis", []),
        ("silver://", ["jobs"]), ("silver://jobs/j2", ["jobs/j2"]),
    ],
)  # fmt: skip
def test_a_listing_looks_only_into_folders_of_the_platform(folder: str, parts: list[str]) -> None:
    """In the order of their keys."""
    access = ReadAccess("ddh", "j1", Rights(folders=["bronze://a", "bronze://a-b", "bronze://a/c"]))
    assert [part.path for part in access.list_folders(parse_folder(folder))] == parts
