"""Folders and clouds do the same; what only one of them can get wrong is below."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anabranch.adapters.objects.bucket import Bucket
from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.objects.tiers import Place, open_storage
from anabranch.errors import AnabranchError, Unavailable
from anabranch.storage.tiers import Tier
from anabranch.testing.tier_suite import TierSuite, code_of
from tests.support.objects import Cloud

SECRET = "hunter2hunter2"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "silver", "silver")


def bucket(cloud: Cloud, tmp_path: Path, **options: str | bool) -> Bucket:
    return Bucket("silver", cloud.url, {**cloud.options, **options}, tmp_path / "incoming")


class TestFolder(TierSuite):
    @pytest.fixture
    def tier(self, folder: Folder) -> Tier:
        return folder


class TestS3(TierSuite):
    @pytest.fixture
    def tier(self, s3: Cloud, tmp_path: Path) -> Tier:
        return bucket(s3, tmp_path)


@pytest.mark.azure
class TestAzure(TierSuite):
    @pytest.fixture
    def tier(self, azure: Cloud, tmp_path: Path) -> Tier:
        return bucket(azure, tmp_path)


@pytest.mark.parametrize("key", ["out.txt", "sub/secret.txt", "inside.txt"])
def test_s3_a_link_in_a_folder_is_refused_and_not_listed(folder: Folder, tmp_path: Path, key: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.txt").write_text("secret")
    folder.put("real.txt", b"x")
    root = tmp_path / "silver"
    (root / "out.txt").symlink_to(tmp_path / "other" / "secret.txt")
    (root / "sub").symlink_to(tmp_path / "other")
    (root / "inside.txt").symlink_to(root / "real.txt")
    for act in (
        lambda: folder.stat(key),
        lambda: folder.put(key, b"overwritten"),
        lambda: folder.stream(key),
        lambda: folder.delete([key]),
        lambda: folder.locate(key),
        lambda: folder.list("sub"),
        lambda: folder.walk("sub"),
    ):
        with pytest.raises(AnabranchError) as caught:
            act()
        assert code_of(caught) == ("storage.path", "permanent")
    assert [found.key for found in folder.list()] == ["real.txt"]
    assert (tmp_path / "other" / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize("key", ["../other/secret.txt", "/etc/hosts", "a/../../x", ".", ".incoming/x"])
def test_s3_a_folder_checks_what_the_address_should_have_checked(folder: Folder, key: str) -> None:
    folder.put("a/real.txt", b"x")
    with pytest.raises(AnabranchError) as caught:
        folder.stat(key)
    assert caught.value.code == "storage.path"


def test_a_walk_reads_each_folder_once_however_many_objects_it_has(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put("many/more/x", b"x")
    for number in range(1_001):
        (tmp_path / "silver" / "many" / f"{number:04}").touch()
    read: list[str] = []
    scan = os.scandir

    def count(path: Path) -> object:
        read.append(path.name)
        return scan(path)

    monkeypatch.setattr("os.scandir", count)
    assert sum(1 for _ in folder.walk("many")) == 1_002
    assert read == ["many", "more"]


def test_s3_a_pipe_is_no_object(folder: Folder, tmp_path: Path) -> None:
    folder.put("real.txt", b"x")
    os.mkfifo(tmp_path / "silver" / "pipe")
    with pytest.raises(AnabranchError) as caught:
        folder.stream("pipe")
    assert caught.value.code == "storage.not_found"
    assert [found.key for found in folder.list()] == ["real.txt"]


def test_w7_of_many_that_write_at_once_one_is_first(folder: Folder) -> None:
    def write(number: int) -> bool:
        try:
            folder.put("a/deep/key", f"{number}".encode(), if_absent=True)
        except AnabranchError:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        first = [number for number, won in enumerate(threads.map(write, range(16))) if won]
    assert [str(number).encode() for number in first] == [b"".join(folder.stream("a/deep/key"))]


def test_a_folder_that_is_emptied_meanwhile_is_made_again(folder: Folder) -> None:
    stop = threading.Event()

    def empty() -> None:
        while not stop.is_set():
            folder.delete(["a/b/other"])

    with ThreadPoolExecutor(1) as threads:
        emptying = threads.submit(empty)
        try:
            for _ in range(30):
                folder.put("a/b/c", b"x")
                folder.delete(["a/b/c"])
        finally:
            stop.set()
        emptying.result()
    assert folder.list() == ()


def test_w7_an_object_of_a_folder_is_durable_with_all_its_folders(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(str(Path(f"/proc/self/fd/{handle}").readlink())))
    folder.put("a/b/c", b"x")
    root = tmp_path / "silver"
    assert synced[0].startswith(f"{root}/.incoming/")
    assert synced[1:] == [f"{root}/a/b", f"{root}/a", f"{root}"]


def test_a_full_disk_is_told_and_leaves_nothing(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(AnabranchError) as caught:
        folder.put("a", b"x")
    assert code_of(caught) == ("storage.full", "resource")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_source_that_changes_while_it_is_read_is_told(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put("a", b"x" * 3_000_000)
    read = Folder._pieces

    def grow(self: Folder, *given: object) -> Iterator[bytes]:
        for piece in read(self, *given):  # type: ignore[arg-type]  # as they were given
            yield piece
            with (tmp_path / "silver" / "a").open("ab") as file:
                file.write(b"more")

    monkeypatch.setattr(Folder, "_pieces", grow)
    with pytest.raises(AnabranchError) as caught:
        folder.download("a", tmp_path / "back")
    assert code_of(caught) == ("storage.changed", "transient")


def test_a_name_that_no_file_can_have_is_told(folder: Folder) -> None:
    with pytest.raises(AnabranchError) as caught:
        folder.put("x" * 300, b"x")
    assert caught.value.code == "storage.path"


def test_s5_a_store_that_does_not_answer_is_told_without_secrets(tmp_path: Path) -> None:
    dead: dict[str, str | bool] = {"endpoint": f"http://127.0.0.1:9/{SECRET}", "allow_http": True}
    clouds = [
        Cloud("s3://bucket", {**dead, "access_key_id": SECRET, "secret_access_key": SECRET}),
        Cloud("az://container", {**dead, "account_name": "a", "sas_key": f"sv=2021&sig={SECRET}"}),
    ]
    for cloud in clouds:
        with pytest.raises(AnabranchError) as caught:
            bucket(cloud, tmp_path).stat("k")
        assert code_of(caught) == ("storage.unreachable", "transient")
        assert SECRET not in f"{caught.value} {caught.value.remedy} {caught.value.__cause__!r} {cloud.url}"


@pytest.mark.azure
def test_s5_a_store_that_refuses_us_is_told_without_secrets(azure: Cloud, tmp_path: Path) -> None:
    wrong = "d3Jvbmc="
    tier = bucket(azure, tmp_path, account_key=wrong)
    acts: list[Callable[[], object]] = [lambda: tier.put("k", b"x"), lambda: tier.stat("k"), tier.list]
    for act in acts:
        with pytest.raises(AnabranchError) as caught:
            act()
        assert code_of(caught) == ("storage.denied", "permanent")
        assert wrong not in str(caught.value)


def test_a_container_that_is_not_there_is_told(s3: Cloud, tmp_path: Path) -> None:
    tier = bucket(Cloud("s3://nowhere", s3.options), tmp_path)
    for act in (lambda: tier.put("k", b"x"), tier.list):
        with pytest.raises(AnabranchError, match="container of the tier silver") as caught:
            act()
        assert caught.value.code == "storage.container"


def test_s5_variables_of_other_programs_are_not_read(
    s3: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "foreign")
    bucket(s3, tmp_path).put("k", b"x")
    assert os.environ["AWS_SESSION_TOKEN"] == "foreign"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket", {}),
        ("s3://bucket", {"access_key_id": "x"}),
        ("az://container", {"account_name": "x"}),
        ("az://container", {"account_name": "x", "credential_type": "auto"}),
        ("gs://bucket", {}),
        ("s3://bucket", {"skip_signature": True, "nonsense": SECRET}),
        ("gs://bucket", {"service_account_key": SECRET}),
    ],
)
def test_s3_no_service_is_asked_who_we_are(
    url: str, options: dict[str, str | bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without explicit options a store would ask the machine's metadata address."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "foreign")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "foreign")
    place = Place("gold", url, options)
    with pytest.raises(AnabranchError) as caught:
        open_storage([place], tmp_path)
    assert caught.value.code == "storage.options"
    assert SECRET not in f"{caught.value} {caught.value.remedy} {place!r}"


def test_a_folder_of_the_operators_is_not_made_anew(tmp_path: Path) -> None:
    away = Folder(tmp_path / "mount" / "silver", "silver", ours=False)
    for act in (lambda: away.put("a", b"a"), lambda: away.stat("a"), away.list, away.begin):
        with pytest.raises(Unavailable) as refused:
            act()
        assert refused.value.code == "storage.container"
    assert not (tmp_path / "mount").exists()
    (tmp_path / "mount" / "silver").mkdir(parents=True)
    away.put("a", b"a")
    assert away.stat("a").size == 1
