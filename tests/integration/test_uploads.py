"""Files that callers send: kept whole under their hash, or not at all."""

import asyncio
import base64
import hashlib
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from anabranch.adapters.objects.folder import Folder
from anabranch.app import open_tiers
from anabranch.client import AsyncClient, Client
from anabranch.errors import InputError
from anabranch.settings import Settings, load_settings, origins, unknown_variables
from anabranch.storage.filenames import check_file_name
from anabranch.storage.locations import StorageLocations
from anabranch.storage.uploads import PART_BYTES
from tests.support.application import create_app
from tests.support.crew import Crew, Start
from tests.support.objects import Cloud
from tests.support.server import free_port, serve
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres

DATA = b"raster " * 1000
HASH = hashlib.sha256(DATA).hexdigest()
OURS = f"sha-256=:{base64.b64encode(bytes.fromhex(HASH)).decode()}:"
OTHER = f"sha-256=:{base64.b64encode(bytes(32)).decode()}:"
BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def bronze(tmp_path: Path) -> Path:
    return tmp_path / "home" / "bronze"


@pytest.fixture
def app(tmp_path: Path, database_url: str) -> FastAPI:
    return create_app(Settings(home=tmp_path / "home", max_upload_bytes=5_000_000), database_url)


@pytest.fixture
async def url(app: FastAPI) -> AsyncIterator[str]:
    async with serve(app) as url:
        await app.state.gateway.ready()  # the tier is marked by then
        yield url


@pytest.fixture
async def api(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
        yield client


def files(folder: Path) -> list[Path]:
    """Every file in a folder, what is written aside too, but for the engine's own."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path.parts[0] != ".anabranch")


async def send(
    api: httpx.AsyncClient, name: str = "dem.tif", data: bytes = DATA, headers: dict[str, str] | None = None
) -> httpx.Response:
    return await api.post("/api/uploads", params={"name": name}, content=data, headers={**BYTES, **(headers or {})})


async def test_w7_a_file_is_kept_under_its_hash_and_once(api: httpx.AsyncClient, bronze: Path) -> None:
    first, again = await send(api), await send(api)

    told = {"address": f"bronze://uploads/{HASH}/dem.tif", "sha256": HASH, "size": len(DATA)}
    assert (first.status_code, first.json()) == (201, told)
    assert (again.status_code, again.json()) == (200, told)
    assert files(bronze) == [Path("uploads", HASH, "dem.tif")]
    assert (bronze / "uploads" / HASH / "dem.tif").read_bytes() == DATA


async def test_an_empty_file_is_a_file(api: httpx.AsyncClient, bronze: Path) -> None:
    told = (await send(api, data=b"")).json()
    assert told["size"] == 0
    assert len(files(bronze)) == 1


async def test_equal_files_at_once_are_one(api: httpx.AsyncClient, bronze: Path) -> None:
    answers = await asyncio.gather(*(send(api) for _ in range(10)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert files(bronze) == [Path("uploads", HASH, "dem.tif")]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Content-SHA256": HASH.upper()},
        {"Repr-Digest": OURS},
        {"Repr-Digest": f"sha-512=:AAAA:, {OURS}"},
        {"Repr-Digest": "sha-512=:AAAA:"},
    ],
)
async def test_a_right_checksum_is_accepted(api: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await send(api, headers=headers)).status_code == 201


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"X-Content-SHA256": "0" * 64}, "upload.checksum"),
        ({"Repr-Digest": OTHER}, "upload.checksum"),
        ({"X-Content-SHA256": "0"}, "request.invalid"),
        ({"Repr-Digest": "sha-256=:AAAA:"}, "request.invalid"),
        ({"Repr-Digest": "sha-256=deadbeef"}, "request.invalid"),
        ({"X-Content-SHA256": HASH, "Repr-Digest": OTHER}, "request.invalid"),
    ],
)  # fmt: skip
async def test_w7_a_wrong_checksum_leaves_nothing(
    api: httpx.AsyncClient, bronze: Path, headers: dict[str, str], code: str
) -> None:
    answer = await send(api, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert files(bronze) == []


@pytest.mark.parametrize("declared", [True, False])
async def test_w7_what_is_too_large_leaves_nothing(api: httpx.AsyncClient, bronze: Path, declared: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(60):
            yield bytes(100_000)

    size = {"Content-Length": "6000000"} if declared else {}
    answer = await api.post("/api/uploads?name=x", content=pieces(), headers={**BYTES, **size})
    assert (answer.status_code, answer.json()["code"]) == (413, "upload.too_large")
    assert files(bronze) == []


async def test_w7_a_broken_connection_leaves_nothing(api: httpx.AsyncClient, bronze: Path) -> None:
    with socket.create_connection((api.base_url.host, api.base_url.port)) as sender:
        head = "POST /api/uploads?name=x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
        sender.sendall(f"{head}Content-Length: 4000000\r\n\r\n".encode() + bytes(2_000_000))
        await wait_until_async(lambda: files(bronze))
    await wait_until_async(lambda: not files(bronze))


async def test_w7_what_a_killed_process_had_begun_is_removed_by_the_next(
    tmp_path: Path, bronze: Path, database_url: str
) -> None:
    dead, live = Folder(bronze).begin(), Folder(bronze).begin()
    dead._file.close()  # as the kernel does
    async with serve(create_app(Settings(home=tmp_path / "home"), database_url)):
        assert len(files(bronze)) == 1
    live.write(b"x")
    assert live.keep("uploads/x")
    live.discard()
    assert files(bronze) == [Path("uploads/x")]


async def test_w7_a_file_goes_to_the_bronze_tier_wherever_it_is(tmp_path: Path, database_url: str, s3: Cloud) -> None:
    storage = StorageLocations(bronze=s3.url, options=SecretStr(json.dumps(dict(s3.options))))
    settings = Settings(home=tmp_path / "home", storage=storage)
    async with (
        serve(create_app(settings, database_url)) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as api,
    ):
        assert [(await send(api)).status_code for _ in range(2)] == [201, 200]
        assert (await send(api, headers={"X-Content-SHA256": "0" * 64})).status_code == 422
    bronze = open_tiers(settings)
    assert [found.key for found in bronze.list("bronze://")] == [f"uploads/{HASH}/dem.tif"]
    assert bronze.read(f"bronze://uploads/{HASH}/dem.tif") == DATA
    assert files(tmp_path / "home" / "incoming") == []


async def test_a_bronze_tier_that_is_away_is_told(tmp_path: Path, database_url: str, s3: Cloud) -> None:
    storage = StorageLocations(bronze="s3://nowhere", options=SecretStr(json.dumps(dict(s3.options))))
    async with (
        serve(create_app(Settings(home=tmp_path / "home", storage=storage), database_url)) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as api,
    ):
        answer = await send(api)
    assert (answer.status_code, answer.json()["code"]) == (503, "storage.container")
    assert files(tmp_path / "home" / "incoming") == []


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""]
)
async def test_what_a_form_could_send_is_refused(api: httpx.AsyncClient, kind: str) -> None:
    answer = await send(api, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "request.media_type")


NAMES = [
    "",
    " ",
    ".",
    "..",
    "a/b",
    "/a",
    "../a",
    "a\\b",
    "a\x00b",
    "a\nb",
    "a\x7f",
    "a\u202eb",
    "a\u2028b",
    " a",
    "a ",
    "x" * 256,
]


@pytest.mark.parametrize("name", NAMES)
async def test_s3_a_name_is_one_segment_and_can_be_shown(api: httpx.AsyncClient, bronze: Path, name: str) -> None:
    answer = await send(api, name)
    assert (answer.status_code, answer.json()["code"]) == (422, "upload.name")
    assert files(bronze) == []


async def test_s3_a_name_that_is_not_utf8_is_refused(api: httpx.AsyncClient, bronze: Path) -> None:
    answer = await api.post("/api/uploads?name=%FF.tif", content=DATA, headers=BYTES)
    assert (answer.status_code, answer.json()["code"]) == (422, "upload.name")
    assert files(bronze) == []


def test_s3_a_name_has_one_spelling() -> None:
    assert check_file_name("u\u0308ber.tif") == check_file_name("\u00fcber.tif") == "\u00fcber.tif"
    assert check_file_name("my file (1).tar.gz") == "my file (1).tar.gz"


async def test_a_full_disk_is_told_and_leaves_nothing(
    api: httpx.AsyncClient, app: FastAPI, bronze: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    answer = await send(api)
    assert (answer.status_code, answer.json()["code"]) == (503, "storage.full")
    assert files(bronze) == []


async def test_both_clients_upload_files(url: str, tmp_path: Path, bronze: Path) -> None:
    file = tmp_path / "dem.tif"
    file.write_bytes(DATA)

    def upload() -> str:
        with Client(url) as client:
            with pytest.raises(InputError) as caught:
                client.upload(tmp_path / "missing")
            assert caught.value.code == "upload.unreadable"
            with pytest.raises(InputError, match="larger than"):
                client.upload("/dev/zero")
            return client.upload(file).address

    async with AsyncClient(url) as client:
        uploaded = await client.upload(str(file), name="other.tif")
    assert (uploaded.address, uploaded.size) == (f"bronze://uploads/{HASH}/other.tif", len(DATA))
    assert await asyncio.to_thread(upload) == f"bronze://uploads/{HASH}/dem.tif"
    assert len(files(bronze)) == 2


async def test_w7_an_upload_that_was_interrupted_sends_only_the_missing_parts(
    tmp_path: Path, database_url: str, bronze: Path
) -> None:
    large = create_app(Settings(home=tmp_path / "home", max_upload_bytes=3 * PART_BYTES), database_url)
    data = bytes(PART_BYTES) + b"1" * PART_BYTES + b"rest"
    file, digest = tmp_path / "large.tif", hashlib.sha256(data).hexdigest()
    file.write_bytes(data)
    sent: list[int] = []
    async with serve(large) as url, httpx.AsyncClient(base_url=url, timeout=20) as api, AsyncClient(url) as client:
        await large.state.gateway.ready()
        path = f"/api/uploads/{digest}"
        first = await api.put(f"{path}/parts/0", content=data[:PART_BYTES], headers=BYTES)
        assert (first.status_code, first.json()) == (201, {"number": 0, "size": PART_BYTES})
        incomplete = await api.post(path, params={"name": "large.tif", "parts": 3})
        assert (incomplete.status_code, incomplete.json()["code"]) == (409, "upload.incomplete")
        uploaded = await client.upload(file, on_progress=lambda done, _: sent.append(done))
        assert (uploaded.sha256, uploaded.size) == (digest, len(data))
        assert sent == [2 * PART_BYTES, len(data)]
        assert (await client.upload(file, on_progress=lambda *_: sent.append(0))).address == uploaded.address
        assert len(sent) == 2
    assert files(bronze) == [Path("uploads", digest, "large.tif")]
    assert list((tmp_path / "home").rglob("*/uploads/*/*/000000")) == []


async def test_w7_parts_that_are_wrong_or_too_large_leave_nothing(
    api: httpx.AsyncClient, bronze: Path, tmp_path: Path
) -> None:
    path = f"/api/uploads/{HASH}"
    for number, data, code in ((0, b"x" * (PART_BYTES + 1), "upload.too_large"), (1, b"x", "upload.too_large")):
        answer = await api.put(f"{path}/parts/{number}", content=data, headers=BYTES)
        assert (answer.status_code, answer.json()["code"]) == (413, code)
    await api.put(f"{path}/parts/0", content=b"other", headers=BYTES)
    answer = await api.post(path, params={"name": "a", "parts": 1})
    assert (answer.status_code, answer.json()["code"]) == (422, "upload.checksum")
    assert (await api.get(path, params={"name": "a"})).json() == {
        "uploaded": None, "part_bytes": PART_BYTES, "parts": []
    }  # fmt: skip
    assert files(bronze) == []


async def test_w7_parts_are_kept_while_their_file_is_asked_for_wrongly(api: httpx.AsyncClient, bronze: Path) -> None:
    path = f"/api/uploads/{HASH}"
    await api.put(f"{path}/parts/0", content=DATA, headers=BYTES)
    for name, parts, status, code in (("a/b", 1, 422, "upload.name"), ("a", 1_000_000, 409, "upload.incomplete")):
        answer = await api.post(path, params={"name": name, "parts": parts})
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await api.post(path, params={"name": "a", "parts": 1})).status_code == 201
    assert files(bronze) == [Path("uploads", HASH, "a")]


async def test_parts_that_nobody_continues_are_removed_after_a_day(api: httpx.AsyncClient, tmp_path: Path) -> None:
    for digest in (HASH, "0" * 64):
        await api.put(f"/api/uploads/{digest}/parts/0", content=b"x", headers=BYTES)
        for part in (tmp_path / "home").rglob("000000"):
            os.utime(part, (0, 0))
    found = [path.parent.name for path in (tmp_path / "home").rglob("000000")]
    assert found == ["0" * 64]


@pytest.mark.slow
async def test_a_large_file_is_never_in_memory_whole(tmp_path: Path, database_url: str) -> None:
    port = free_port()
    crew = Crew(Start(tmp_path, tmp_path, database_url))
    file = tmp_path / "large"
    with file.open("wb") as large:
        large.truncate(300_000_000)
    try:
        (api,) = await crew.start_ready("api", port=port)

        def peak() -> int:
            status = Path(f"/proc/{api.pid}/status").read_text()
            return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            await client.upload(__file__)
            before = peak()
            uploaded = await client.upload(file)
        assert uploaded.size == 300_000_000
        assert peak() - before < 30_000  # kB
    finally:
        crew.close()


def test_the_tiers_are_folders_of_the_home_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_STORAGE__BRONZE", "file:///srv/raw%20data")
    monkeypatch.setenv("ANABRANCH_STORAGE__SILVR", "x")
    assert list(unknown_variables()) == [("ANABRANCH_STORAGE__SILVR", "ANABRANCH_STORAGE__SILVER")]
    monkeypatch.delenv("ANABRANCH_STORAGE__SILVR")
    settings = load_settings(home=tmp_path)
    assert settings.storage.bronze == "file:///srv/raw%20data"
    assert settings.storage.gold == (tmp_path / "gold").as_uri()
    told = {origin.name: (origin.value, origin.origin) for origin in origins(settings)}
    assert told["storage.bronze"] == ("file:///srv/raw%20data", "environment ANABRANCH_STORAGE__BRONZE")
    assert told["storage.silver"] == ((tmp_path / "silver").as_uri(), "default")


@pytest.mark.parametrize(
    "url",
    ["az://", "s3:bucket", "/srv/data", "file://host/x", "file:x", "https://x/y", "s3://key:secret@b", "az://c?sig=x"],
)
def test_what_is_no_url_of_a_store_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_STORAGE__GOLD", url)
    with pytest.raises(InputError) as caught:
        load_settings(home=tmp_path)
    assert caught.value.code == "settings.invalid"
    assert "ANABRANCH_STORAGE__GOLD" in caught.value.message
