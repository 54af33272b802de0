"""A source comes to a machine once, is what it was said to be, and the cache stays within its bound."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.objects.tiers import Place, open_storage
from anabranch.errors import AnabranchError, Unavailable
from anabranch.storage.addresses import parse_address
from anabranch.storage.source_cache import Sources
from anabranch.storage.tiers import Downloaded, Storage
from tests.support.objects import Cloud

A = parse_address("bronze://a.tif")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_bronze(tmp_path)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path / "cache", 1_000)


def open_bronze(folder: Path) -> Storage:
    return open_storage([Place("bronze", (folder / "bronze").as_uri())], folder / "incoming")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def cached(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "files").rglob("?" * 64))


def test_a_source_is_brought_once_and_is_read_only(storage: Storage, sources: Sources, tmp_path: Path) -> None:
    storage.put(A, b"data")
    assert sources.fetch(storage.tier("bronze"), A, tmp_path / "1" / "a") == digest(b"data")
    assert sources.fetch(storage.tier("bronze"), A, tmp_path / "2" / "a", digest(b"data")) == digest(b"data")
    first, second = (tmp_path / number / "a" for number in "12")
    assert first.read_bytes() == b"data"
    assert (first.stat().st_ino, first.stat().st_mode & 0o777) == (second.stat().st_ino, 0o444)
    assert not first.is_symlink()


def test_s1_a_hash_alone_gives_no_file_of_another_address(storage: Storage, sources: Sources, tmp_path: Path) -> None:
    storage.put(A, b"data")
    storage.put("bronze://b", b"more")
    sources.fetch(storage.tier("bronze"), A, tmp_path / "1")
    with pytest.raises(AnabranchError, match=digest(b"more")):
        sources.fetch(storage.tier("bronze"), parse_address("bronze://b"), tmp_path / "2", digest(b"data"))
    assert not (tmp_path / "2").exists()


def test_a_version_that_was_fetched_is_known_again_without_its_hash(
    storage: Storage, sources: Sources, tmp_path: Path
) -> None:
    storage.put(A, b"data")
    for number in "12":
        sources.fetch(storage.tier("bronze"), A, tmp_path / number)
    assert (tmp_path / "1").stat().st_ino == (tmp_path / "2").stat().st_ino
    storage.put(A, b"new!")
    assert sources.fetch(storage.tier("bronze"), A, tmp_path / "3") == digest(b"new!")
    assert (tmp_path / "3").read_bytes() == b"new!"


def test_another_hash_than_the_one_told_is_an_error_and_leaves_nothing(
    storage: Storage, sources: Sources, tmp_path: Path
) -> None:
    storage.put(A, b"data")
    with pytest.raises(AnabranchError, match=digest(b"data")) as caught:
        sources.fetch(storage.tier("bronze"), A, tmp_path / "1", digest(b"other"))
    assert (caught.value.code, caught.value.category) == ("storage.checksum", "permanent")
    assert not (tmp_path / "1").exists()
    assert cached(tmp_path) == []


def test_a_cached_file_that_a_handler_wrote_to_is_not_used_again(
    storage: Storage, sources: Sources, tmp_path: Path
) -> None:
    storage.put(A, b"data")
    sources.fetch(storage.tier("bronze"), A, tmp_path / "1")
    (tmp_path / "1").chmod(0o644)
    (tmp_path / "1").write_bytes(b"evil")
    for wanted in (None, digest(b"data")):
        sources.fetch(storage.tier("bronze"), A, tmp_path / "2", wanted)
        assert (tmp_path / "2").read_bytes() == b"data"


def test_the_least_recently_used_goes_first(storage: Storage, sources: Sources, tmp_path: Path) -> None:
    for name in "abc":
        storage.put(f"bronze://{name}", name.encode() * 400)
    for turn, name in enumerate("abac"):
        sources.fetch(storage.tier("bronze"), parse_address(f"bronze://{name}"), tmp_path / f"{turn}")
    assert {file.read_bytes()[:1] for file in cached(tmp_path)} == {b"a", b"c"}
    assert (tmp_path / "1").read_bytes() == b"b" * 400
    sources.fetch(storage.tier("bronze"), parse_address("bronze://b"), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"b" * 400


@pytest.mark.parametrize("lost", ["", "removed"])
def test_the_noted_size_of_the_cache_is_that_of_its_files(
    storage: Storage, sources: Sources, tmp_path: Path, lost: str
) -> None:
    """While there is room, only the note is read: the files of a cache may be many."""
    note = tmp_path / "cache" / "total"
    for turn, name in enumerate("abcd"):
        storage.put(f"bronze://{name}", name.encode() * (300 + turn))
        sources.fetch(storage.tier("bronze"), parse_address(f"bronze://{name}"), tmp_path / f"{turn}")
        assert int(note.read_text()) == sum(file.stat().st_size for file in cached(tmp_path)) <= 1_000
        if lost:
            note.unlink()


def test_files_leave_the_cache_where_the_disk_has_no_room_and_what_never_fits_is_refused(
    storage: Storage, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put(A, b"data")
    storage.put("bronze://b", b"more")
    sources.fetch(storage.tier("bronze"), A, tmp_path / "1")
    (first,), room, usage = cached(tmp_path), 4, shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        "anabranch.storage.source_cache.disk_usage",
        lambda _: usage._replace(free=0 if first.exists() else room),
    )
    sources.fetch(storage.tier("bronze"), parse_address("bronze://b"), tmp_path / "2")
    assert [file.read_bytes() for file in cached(tmp_path)] == [b"more"]
    room = 3
    with pytest.raises(Unavailable, match=r"bronze://a.tif has 4 bytes, and .*cache, .* has 3 free") as refused:
        sources.fetch(storage.tier("bronze"), A, tmp_path / "3")
    assert refused.value.code == "storage.full"


@pytest.mark.parametrize("most", [0, 3])
def test_what_is_larger_than_the_cache_is_fetched_and_not_kept(storage: Storage, tmp_path: Path, most: int) -> None:
    storage.put(A, b"data")
    Sources(tmp_path / "cache", most).fetch(storage.tier("bronze"), A, tmp_path / "1" / "a")
    assert (tmp_path / "1" / "a").read_bytes() == b"data"
    assert cached(tmp_path) == []


def test_what_a_killed_process_had_begun_is_removed(storage: Storage, sources: Sources, tmp_path: Path) -> None:
    storage.put(A, b"data")
    sources.fetch(storage.tier("bronze"), A, tmp_path / "1")
    left = tmp_path / "cache" / "incoming" / "3f"
    left.write_bytes(b"half")
    sources.clear()
    assert not left.exists()
    assert len(cached(tmp_path)) == 1


def fetch_often(folder: str, number: int) -> None:
    storage, sources = open_bronze(Path(folder)), Sources(Path(folder) / "cache", 2_000)
    for turn in range(20):
        name = f"{(turn * 7 + number) % 6}"
        target = Path(folder) / "scratch" / f"{number}-{turn}"
        sources.fetch(storage.tier("bronze"), parse_address(f"bronze://{name}"), target)
        assert target.read_bytes() == name.encode() * 500


def test_processes_that_share_a_cache_all_get_the_right_bytes(storage: Storage, tmp_path: Path) -> None:
    for name in range(6):
        storage.put(f"bronze://{name}", str(name).encode() * 500)
    program, found = [sys.executable, __file__, str(tmp_path)], {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [subprocess.Popen([*program, str(number)], env=found) for number in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert sum(file.stat().st_size for file in cached(tmp_path)) <= 2_000


def test_a_source_in_a_cloud_is_fetched_once(s3: Cloud, sources: Sources, tmp_path: Path) -> None:
    storage = open_storage([Place("bronze", s3.url, s3.options)], tmp_path / "incoming")
    storage.put(A, b"data")
    for number in "12":
        sources.fetch(storage.tier("bronze"), A, tmp_path / number)
    assert (tmp_path / "1").stat().st_ino == (tmp_path / "2").stat().st_ino


if __name__ == "__main__":
    fetch_often(sys.argv[1], int(sys.argv[2]))


class ReplacedFolder(Folder):
    """A folder whose objects are replaced after they were described."""

    def download(self, key: str, target: Path) -> Downloaded:
        self.put(key, b"another version")
        return super().download(key, target)


def test_a_version_that_is_replaced_before_it_is_read_is_a_changed_source(sources: Sources, tmp_path: Path) -> None:
    bronze = ReplacedFolder(tmp_path / "bronze", "bronze")
    bronze.put(A.path, b"data")
    with pytest.raises(AnabranchError, match="was replaced") as caught:
        sources.fetch(bronze, A, tmp_path / "1", tag=bronze.stat(A.path).tag)
    assert caught.value.code == "source.changed"
    assert cached(tmp_path) == []
