"""What every store of a tier must do: a class for each store inherits this, and gives a fixture `tier`."""

import hashlib
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.storage.tiers import Stored, Tier

__all__ = ["TierSuite", "code_of"]

ODD = ["a b", "a%20b", "%2e%2e", "a#b?x=1", "~tilde", "[x]{y}|^`*<>", "über/straße.tif", "a+b&c=d;e,'\"", "..x", "a:b"]
LARGE = 17 * 2**20
DATA = b"raster " * 1000


def code_of(caught: pytest.ExceptionInfo[AnabranchError]) -> tuple[str, str]:
    """The code of an error, and whether a handler that fails by it is tried again."""
    return caught.value.code, caught.value.category


class TierSuite:
    """Behaviour that handlers, uploads and commands rely on."""

    def test_what_is_put_is_there_whole(self, tier: Tier) -> None:
        stored = tier.put("a/b.txt", DATA, media_type="text/plain")
        assert stored == Stored(len(DATA), hashlib.sha256(DATA).hexdigest())
        assert b"".join(tier.stream("a/b.txt")) == DATA
        found = tier.stat("a/b.txt")
        assert (found.key, found.size, bool(found.tag)) == ("a/b.txt", len(DATA), True)

    def test_a_media_type_is_kept_or_there_is_none(self, tier: Tier) -> None:
        tier.put("typed", DATA, media_type="image/tiff; application=geotiff")
        assert tier.media_type("typed") in (None, "image/tiff; application=geotiff")
        with pytest.raises(AnabranchError) as caught:
            tier.media_type("none")
        assert caught.value.code == "storage.not_found"

    def test_a_new_version_has_another_tag(self, tier: Tier) -> None:
        tier.put("k", b"one")
        before = tier.stat("k")
        tier.put("k", b"two!")
        assert tier.stat("k").tag != before.tag
        assert b"".join(tier.stream("k")) == b"two!"

    def test_an_empty_object_is_an_object(self, tier: Tier) -> None:
        tier.put("empty", b"")
        assert tier.stat("empty").size == 0
        assert b"".join(tier.stream("empty")) == b""
        assert b"".join(tier.stream("empty", 0, 10)) == b""

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, 3, b"012"),
            (3, None, b"3456789"),
            (8, 5, b"89"),
            (10, 5, b""),
            (10, None, b""),
            (50, 5, b""),
            (4, 0, b""),
        ],
    )
    def test_a_range_is_what_there_is_of_it(self, tier: Tier, start: int, length: int | None, expected: bytes) -> None:
        tier.put("digits", b"0123456789")
        assert b"".join(tier.stream("digits", start, length)) == expected

    def test_a_range_of_a_version_is_of_that_version_or_refused(self, tier: Tier) -> None:
        tier.put("digits", b"0123456789")
        tag = tier.stat("digits").tag
        assert b"".join(tier.stream("digits", 3, 4, tag=tag)) == b"3456"
        assert b"".join(tier.stream("digits", tag=tag)) == b"0123456789"
        tier.put("digits", b"9876543210")
        for start, length in ((3, 4), (0, None)):
            with pytest.raises(AnabranchError) as caught:
                b"".join(tier.stream("digits", start, length, tag=tag))
            assert code_of(caught) == ("storage.changed", "transient")

    @pytest.mark.parametrize("key", ODD)
    def test_s3_odd_names_are_names_and_nothing_more(self, tier: Tier, key: str) -> None:
        tier.put(key, b"x", if_absent=True)
        assert [found.key for found in tier.list()] == [key]
        assert b"".join(tier.stream(key)) == b"x"
        tier.delete([key])
        assert tier.list() == ()

    def test_lists_go_by_folder_and_by_key_and_on_after_one(self, tier: Tier) -> None:
        keys = ["a", "d-e/1", "d/1", "d/2/x", "d/2/y", "d/3", "d0", "dd/1", "é"]
        for key in reversed(keys):
            tier.put(key, b"x")
        assert tuple(tier.walk()) == tier.list()
        assert [found.key for found in tier.list()] == keys
        assert tuple(tier.walk("d")) == tier.list("d")
        assert [found.key for found in tier.list("d")] == ["d/1", "d/2/x", "d/2/y", "d/3"]
        assert [found.key for found in tier.list("d/2")] == ["d/2/x", "d/2/y"]
        assert tier.list("nothing") == tier.list("a") == tuple(tier.walk("nothing")) == ()
        listed: list[str] = []
        while page := tier.list(after=listed[-1] if listed else "", limit=2):
            assert len(page) <= 2
            listed += [found.key for found in page]
        assert listed == keys

    def test_w7_what_is_there_stays_where_absence_is_asked_for(self, tier: Tier, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"later")
        tier.put("k", b"first", if_absent=True)
        with pytest.raises(AnabranchError) as caught:
            tier.put("k", b"later", if_absent=True)
        assert code_of(caught) == ("storage.exists", "permanent")
        with pytest.raises(AnabranchError) as caught:
            tier.upload("k", source, if_absent=True)
        assert code_of(caught) == ("storage.exists", "permanent")
        assert b"".join(tier.stream("k")) == b"first"

    def test_a_large_file_goes_up_and_down_with_its_checksum(self, tier: Tier, tmp_path: Path) -> None:
        source, back = tmp_path / "source", tmp_path / "back"
        source.write_bytes(hashlib.shake_128(b"seed").digest(2**20) * 17)
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        assert tier.upload("big.tif", source, if_absent=True, media_type="image/tiff") == Stored(LARGE, digest)
        got = tier.download("big.tif", back)
        assert (got.sha256, got.stat) == (digest, tier.stat("big.tif"))
        assert hashlib.sha256(back.read_bytes()).hexdigest() == digest
        with pytest.raises(AnabranchError) as caught:
            tier.upload("big.tif", source, if_absent=True)
        assert code_of(caught) == ("storage.exists", "permanent")

    def test_many_are_removed_at_once_and_what_is_not_there_is_no_error(self, tier: Tier) -> None:
        keys = [f"many/{number:03}" for number in range(260)]
        for key in [*keys, "other"]:
            tier.put(key, b"x")
        tier.delete([*keys[:100], "never", *keys[100:]])
        tier.delete(["never"])
        tier.delete([])
        assert [found.key for found in tier.list()] == ["other"]

    def test_what_is_not_there_is_told(self, tier: Tier, tmp_path: Path) -> None:
        for act in (
            lambda: tier.stat("no/such"),
            lambda: tier.stream("no/such"),
            lambda: tier.stream("no/such", 5, 0),
            lambda: tier.download("no/such", tmp_path / "back"),
        ):
            with pytest.raises(AnabranchError) as caught:
                act()
            assert code_of(caught) == ("storage.not_found", "permanent")

    def test_w7_an_object_in_pieces_is_seen_when_it_is_kept_and_once(self, tier: Tier) -> None:
        first, second, dropped = tier.begin(), tier.begin(), tier.begin()
        for intake in (first, second, dropped):
            intake.write(b"in ")
            intake.write(b"pieces")
        assert tier.list() == ()
        assert [first.keep("u/1"), second.keep("u/1")] == [True, False]
        for intake in (first, second, dropped):
            intake.discard()
        tier.clear()
        assert [found.key for found in tier.list()] == ["u/1"]
        assert b"".join(tier.stream("u/1")) == b"in pieces"
