"""An address names one object of one tier, and nothing else (S3)."""

import time

import pytest

from anabranch.errors import InputError
from anabranch.storage.addresses import Address, check_path, parse_address, parse_folder
from anabranch.storage.attempt_keys import AttemptKey, attempt_key, parse_key
from anabranch.storage.filenames import check_file_name

HOSTILE = [
    "",
    "/",
    "/etc/passwd",
    "a//b",
    "a/",
    ".",
    "..",
    "../a",
    "a/../b",
    "a/..",
    "a/./b",
    "a\\b",
    "..\\a",
    "a\x00b",
    "a\nb",
    "a\x7f",
    "a\x85b",
    "a\u2028b",
    "a\u202eb",
    "a\ud800",
    "x" * 1025,
    "a://b",
    "é" * 513,
]


@pytest.mark.parametrize("path", HOSTILE)
def test_s3_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_address(f"bronze://{path}")
    assert caught.value.code == "storage.path"
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("text", ["", "a/b", "/a", "bronze:/a", "://a", "BRONZE://a", "br onze://a", "../x://a"])
def test_s3_what_names_no_tier_is_no_address(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_address(text)
    assert caught.value.code == "storage.address"


@pytest.mark.parametrize("path", ["a", "a b/c (1).tif", "%2e%2e/x", "..a/b..", "x" * 1024, "می‌خواهم.tif"])
def test_s3_other_names_stay_as_they_are(path: str) -> None:
    at = parse_address(f"silver://{path}")
    assert (at, str(at)) == (Address("silver", path), f"silver://{path}")


def test_s3_a_path_has_one_spelling() -> None:
    assert check_path("u\u0308ber") == check_path("\u00fcber") == "\u00fcber"


def test_ts1_a_text_that_takes_long_to_compose_is_refused_before() -> None:
    """Marks are sorted in the square of their number: half a megabyte of them would take minutes."""
    hostile = "a" + "\u0301" * 250_000 + "\u0316" * 250_000
    began = time.thread_time()
    for check in (check_path, check_file_name):
        with pytest.raises(InputError, match="it is longer than"):
            check(hostile)
    assert time.thread_time() - began < 1
    assert len(check_path("\u03b1\u0313\u0300\u0345" * 341).encode()) == 1023, "of 4 characters for each 3 bytes"


def test_a_folder_may_be_the_whole_tier() -> None:
    assert parse_folder("gold://") == Address("gold", "")
    assert parse_folder("gold://a/b/") == Address("gold", "a/b")
    with pytest.raises(InputError):
        parse_folder("gold://a//")


def test_a_key_of_an_attempt_is_read_back() -> None:
    key = attempt_key("j" * 64, "cogs", 7, 2, "tiles/a b.tif")
    assert str(key) == f"jobs/{'j' * 64}/cogs/7/2-{key.token}/tiles/a b.tif"
    assert parse_key(str(key)) == key == AttemptKey("j" * 64, "cogs", "7", 2, key.token, "tiles/a b.tif")


def test_s3_a_hostile_index_stays_one_segment() -> None:
    key = str(attempt_key("job", "node", "../../x", 1, "a"))
    assert len(key.split("/")) == 6
    assert ".." not in key
    assert attempt_key("job", "node", "a/b", 1, "a") != attempt_key("job", "node", "a_b", 1, "a")


@pytest.mark.parametrize("name", ["../a", "/a", "a//b", ""])
def test_s3_a_hostile_name_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        attempt_key("job", "node", 1, 1, name)


@pytest.mark.parametrize(
    "key", ["uploads/abc/dem.tif", "jobs/a/b/c/d/e", "jobs/a/b/c/1", "jobs/a//c/1/e", "x/a/b/c/1/e"]
)
def test_what_no_attempt_wrote_is_told_apart(key: str) -> None:
    assert parse_key(key) is None
