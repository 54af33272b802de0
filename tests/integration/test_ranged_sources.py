"""Rasters in object storage are read by ranges into the sandbox, and never copied whole (decision 026)."""

import hashlib
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.windows import Window as Part
from structlog.testing import capture_logs

from anabranch.adapters.objects.bucket import Bucket
from anabranch.errors import AnabranchError, Interrupted, Permanent, Unavailable
from anabranch.plugins.raster.files.drivers import gdal_environment
from anabranch.plugins.raster.formats.models import Choice
from anabranch.plugins.raster.formats.prepare import prepare
from anabranch.plugins.raster.formats.sources import pin_source
from anabranch.plugins.raster.handler_models import ValidateParams
from anabranch.plugins.raster.handlers import preflight, validate
from anabranch.plugins.raster.item.in_place import DescribeParams, describe_files
from anabranch.plugins.raster.models import Checked, CogOptions, Kind, ValidateOptions, Window, Written
from anabranch.plugins.raster.request import RasterRequest
from anabranch.plugins.raster.sandbox_calls import run_in_sandbox, sandbox_folder
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.stac.facts import RasterItem
from anabranch.plugins.storage.handlers import StageParams, stage
from anabranch.sandbox import Limits, Sandbox
from anabranch.storage.listed_files import ListedFile
from anabranch.storage.ranged_object import Ranges
from anabranch.testing import FakeContext
from anabranch.testing.tier_suite import ODD
from tests.support.huge_tiff import SIDE, SIZE, TILE, pixels_at, serve_huge_tiff
from tests.support.objects import Cloud
from tests.support.rasters import hills, make_raster, picture
from tests.support.waiting import PATIENCE_SECONDS

CONFINED = Path(__file__).parents[1] / "data" / "confined"
LIMITS = Limits(memory=512 * 2**20, cpu_seconds=60, file_bytes=4 * 2**20)
SETTINGS = RasterSettings(raster_ranged_mb=0, raster_memory_mb=256)
SOURCE = "bronze://in/scene.tif"
BLOCK = 128
TILED: dict[str, Any] = {"tiled": True, "blockxsize": BLOCK, "blockysize": BLOCK, "compress": "deflate"}
GB = 2**30


class CountingBucket(Bucket):
    """A bucket that knows how much was read from it."""

    read_bytes = 0

    def stream(self, key: str, start: int = 0, length: int | None = None, *, tag: str | None = None) -> Iterator[bytes]:
        for piece in super().stream(key, start, length, tag=tag):
            self.read_bytes += len(piece)
            yield piece


def context(folder: Path, cloud: Cloud, settings: RasterSettings = SETTINGS) -> tuple[FakeContext, CountingBucket]:
    """A task whose bronze tier is in this cloud."""
    ctx = FakeContext(folder, settings=(settings,))
    bucket = CountingBucket("bronze", cloud.url, cloud.options, folder / "incoming")
    ctx.tiers.tiers["bronze"] = bucket
    return ctx, bucket


def open_pinned(ctx: FakeContext, source: str = SOURCE) -> Path | Ranges:
    """The source as handlers open it."""
    pin = pin_source(ctx, source, ctx.storage.stat(source))
    return prepare(ctx, source, None, Choice(), pin=pin).path


@pytest.mark.parametrize(("interleave", "target_crs"), [("pixel", None), ("band", None), ("pixel", "EPSG:3857")])
def test_r6_look_and_write_read_little_more_than_the_blocks_of_a_window(
    tmp_path: Path, s3: Cloud, interleave: str, target_crs: str | None
) -> None:
    local = make_raster(tmp_path / "scene.tif", picture(2_000, 1_500), interleave=interleave, **TILED)
    ctx, bucket = context(tmp_path, s3)
    bucket.upload("in/scene.tif", local)
    source = open_pinned(ctx)
    assert isinstance(source, Ranges)
    checked = run_in_sandbox(ctx, "look", Checked, path=source, options=ValidateOptions(), settings=SETTINGS)
    assert (checked.raster.name, checked.raster.width, checked.raster.kind) == ("scene.tif", 2_000, Kind.RGB)

    part, before = Part(1_000, 300, 700, 600), bucket.read_bytes
    target = sandbox_folder(ctx) / "cog.tif"
    window = Window(column=1_000, row=300, width=700, height=600)
    options = CogOptions(kind=Kind.RGB, window=window, target_crs=target_crs, memory_mb=256)
    with capture_logs() as logged:
        run_in_sandbox(ctx, "write", Written, source=source, target=target, options=options)
    assert logged == []  # no call was refused
    read = bucket.read_bytes - before
    with rasterio.open(local) as wanted, rasterio.open(target) as found:
        if target_crs is None:
            assert np.array_equal(found.read(), wanted.read(window=part))
            assert read <= 1.3 * intersecting_bytes(wanted, part)
    assert read < local.stat().st_size / 2
    assert not (ctx.scratch / "sources").exists()


def test_r6_a_raster_in_object_storage_is_cataloged_where_it_lies(tmp_path: Path, s3: Cloud) -> None:
    """Of its pixels a sample is read; another version than the one that was listed is not described."""
    noise = np.random.default_rng(1).integers(0, 256, (1, 5_000, 5_000), np.uint8)
    local = make_raster(tmp_path / "scene.tif", noise, tiled=True)
    ctx, bucket = context(tmp_path, s3)
    bucket.upload("in/scene.tif", local)
    version = ctx.storage.stat(SOURCE).tag
    listed = [
        ListedFile(address=SOURCE, item=item, status="changed", versions={SOURCE: tag}, expected=3)
        for item, tag in (("scene", version), ("changed", "other"))
    ]
    found = describe_files(DescribeParams(files=tuple(listed)), ctx)
    assert [(each.address, each.code) for each in found.failures] == [(SOURCE, "source.changed")]
    part = ctx.work.fetch(found.part)
    assert part
    item = RasterItem.model_validate_json(part.read_text())
    (output,) = item.outputs
    assert item.expected == 3, "what a person did meanwhile is not undone"
    assert (item.id, output.href, output.version, output.sha256) == ("scene", SOURCE, version, None)
    assert (output.kind, output.drawn) == ("raster", False), "it has no overviews"
    assert bucket.read_bytes < local.stat().st_size / 2
    assert not (ctx.scratch / "sources").exists()


def intersecting_bytes(src: rasterio.DatasetReader, part: Part) -> int:
    """The bytes of all blocks that a window touches."""
    columns = range(part.col_off // BLOCK, (part.col_off + part.width - 1) // BLOCK + 1)
    rows = range(part.row_off // BLOCK, (part.row_off + part.height - 1) // BLOCK + 1)
    bands = src.indexes if src.interleaving.name == "band" else [1]
    return sum(
        int(src.get_tag_item(f"BLOCK_SIZE_{column}_{row}", "TIFF", bidx=band))
        for column, row, band in product(columns, rows, bands)
    )


def test_the_handlers_take_a_pinned_source(tmp_path: Path, s3: Cloud) -> None:
    local = make_raster(tmp_path / "scene.tif", hills(), **TILED)
    ctx, bucket = context(tmp_path, s3)
    bucket.upload("in/scene.tif", local)
    pin = pin_source(ctx, SOURCE, ctx.storage.stat(SOURCE))
    staged = stage(StageParams(source=SOURCE, pin=pin), ctx)
    assert (staged.size, staged.sha256) == (local.stat().st_size, hashlib.sha256(local.read_bytes()).hexdigest())
    checked = validate(ValidateParams(source=SOURCE, sha256=staged.sha256, pin=pin), ctx)
    assert checked.raster.size_bytes == staged.size
    assert not (tmp_path / "cache").exists()
    assert not (ctx.scratch / "sources").exists()


def test_only_large_tiled_tiffs_in_object_storage_are_pinned(tmp_path: Path, s3: Cloud) -> None:
    tiled = make_raster(tmp_path / "tiled.tif", hills(), **TILED)
    striped = make_raster(tmp_path / "striped.tif", hills())
    ctx, bucket = context(tmp_path, s3)
    for path in (tiled, striped):
        bucket.upload(f"in/{path.name}", path)
        ctx.tiers.put(f"silver://in/{path.name}", path.read_bytes())
    bucket.put("in/text.tif", b"not a raster " * 1_000)

    def pin(address: str, task: FakeContext = ctx) -> str | None:
        return pin_source(task, address, ctx.storage.stat(address))

    assert pin("bronze://in/tiled.tif") == ctx.storage.stat("bronze://in/tiled.tif").tag
    assert [pin(f"bronze://in/{name}") for name in ("striped.tif", "text.tif")] == [None, None]
    assert pin("silver://in/tiled.tif") is None  # a folder of this machine
    small, _ = context(tmp_path / "small", s3, RasterSettings(raster_ranged_mb=64))
    assert pin("bronze://in/tiled.tif", small) is None


@pytest.mark.parametrize(
    ("aux", "ranged"),
    [
        ("<PAMRasterBand band='1'><Metadata><MDI key='STATISTICS_MEAN'>4</MDI></Metadata></PAMRasterBand>", True),
        ("<PAMRasterBand band='1'><Description>height</Description></PAMRasterBand>", False),
        ("<Odd/>", True),
    ],
)
def test_only_a_sidecar_that_is_used_keeps_a_source_from_being_read_by_ranges(
    tmp_path: Path, s3: Cloud, aux: str, ranged: bool
) -> None:
    ctx, bucket = context(tmp_path, s3)
    bucket.upload("in/scene.tif", make_raster(tmp_path / "scene.tif", hills(), **TILED))
    bucket.put("in/scene.tif.aux.xml", f"<PAMDataset>{aux}</PAMDataset>".encode())
    plan = preflight(RasterRequest(source=SOURCE, collection="a"), ctx)
    assert (plan.pin is not None, [bool(each.sha256) for each in plan.sidecars]) == (ranged, [ranged])
    checked = validate(ValidateParams(source=SOURCE, tag=plan.tag, pin=plan.pin, sidecars=plan.sidecars), ctx)
    assert [len(each.sha256) for each in checked.raster.sidecars] == [64], "of those that are not used, too"
    assert [warning.code for warning in plan.warnings] == (["raster.sidecar_unused"] if "Odd" in aux else [])


def test_a_source_that_is_replaced_meanwhile_is_refused(tmp_path: Path, s3: Cloud) -> None:
    local = make_raster(tmp_path / "scene.tif", picture(900, 900), **TILED)
    ctx, bucket = context(tmp_path, s3)
    bucket.upload("in/scene.tif", local)
    pin = ctx.storage.stat(SOURCE).tag
    source = ctx.storage.open_ranges(SOURCE, pin)
    source.read(0, 100)
    bucket.upload("in/scene.tif", make_raster(tmp_path / "other.tif", picture(900, 900)[:, ::-1], **TILED))
    with pytest.raises(Permanent) as read:
        run_in_sandbox(ctx, "look", Checked, path=source, options=ValidateOptions(), settings=SETTINGS)
    with pytest.raises(Permanent) as opened:
        ctx.storage.open_ranges(SOURCE, pin)
    with pytest.raises(Permanent) as staged:
        stage(StageParams(source=SOURCE, pin=pin), ctx)
    assert {caught.value.code for caught in (read, opened, staged)} == {"source.changed"}


@pytest.mark.parametrize("name", [f"{name.replace('/', '-')}.tif" for name in ODD] + ["GTIFF_DIR:2:a.tif", "vrt:a.tif"])
def test_s4_odd_names_are_names_and_nothing_more(sandboxed: Sandbox, tmp_path: Path, name: str) -> None:
    path = make_raster(tmp_path / "plain.tif", hills(300, 300), **TILED)
    arguments = {"options": {}, "settings": SETTINGS.model_dump()}
    found = sandboxed.run(
        "look", arguments, limits=LARGE, writes=[tmp_path], ranged={"path": Local(path.read_bytes(), name)}
    )
    assert found["raster"]["name"] == name


LARGE = Limits(memory=3 * GB, cpu_seconds=60, file_bytes=2**26)


class Local:
    """Bytes, served by ranges."""

    def __init__(self, data: bytes, name: str = "scene.tif") -> None:
        self.name = name
        self.size = len(data)
        self.asked: list[tuple[int, int]] = []
        self._data = data

    def read(self, start: int, length: int) -> bytes:
        self.asked.append((start, length))
        return self._data[start : start + length]


class Failing(Local):
    """Fails at its third range."""

    def read(self, start: int, length: int) -> bytes:
        if len(self.asked) == 2:
            raise Unavailable("storage.unreachable", "the store does not answer")
        return super().read(start, length)


class Silent(Local):
    """Does not answer its third range."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.waits, self.released = Event(), Event()

    def read(self, start: int, length: int) -> bytes:
        if len(self.asked) == 2:
            self.waits.set()
            self.released.wait()
        return super().read(start, length)


@pytest.fixture(scope="module")
def sandboxed() -> Iterator[Sandbox]:
    made = Sandbox("anabranch.plugins.raster.sandbox_functions", gdal_environment(256))
    yield made
    made.close()


def test_a_store_that_does_not_answer_is_not_the_fault_of_the_file(sandboxed: Sandbox, tmp_path: Path) -> None:
    path = make_raster(tmp_path / "scene.tif", hills(), **TILED)
    arguments = {"options": {}, "settings": SETTINGS.model_dump()}
    with pytest.raises(AnabranchError) as failed:
        sandboxed.run("look", arguments, limits=LARGE, writes=[tmp_path], ranged={"path": Failing(path.read_bytes())})
    assert (failed.value.code, failed.value.category) == ("storage.unreachable", "transient")


def test_e7_a_cancel_does_not_wait_for_the_store(sandboxed: Sandbox, tmp_path: Path) -> None:
    source = Silent(make_raster(tmp_path / "scene.tif", hills(), **TILED).read_bytes())
    arguments = {"options": {}, "settings": SETTINGS.model_dump()}
    with pytest.raises(Interrupted):
        sandboxed.run(
            "look", arguments, limits=LARGE, writes=[tmp_path], ranged={"path": source}, should_stop=source.waits.is_set
        )
    source.released.set()


class Together(Local):
    """Answers a range of pixels once another is asked for at the same time."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.met = 0
        self._pair = Barrier(2, action=self._count)

    def _count(self) -> None:
        self.met += 1

    def read(self, start: int, length: int) -> bytes:
        if length > 2**16:
            self._pair.wait(PATIENCE_SECONDS)
        return super().read(start, length)


def test_neighbouring_blocks_are_one_range_and_ranges_are_read_at_once(sandboxed: Sandbox, tmp_path: Path) -> None:
    path = make_raster(tmp_path / "scene.tif", picture(900, 900), **TILED)
    source, target = Together(path.read_bytes()), tmp_path / "cog.tif"
    window = Window(column=128, row=128, width=512, height=512)
    options = CogOptions(kind=Kind.RGB, window=window, memory_mb=256).model_dump(mode="json")
    arguments = {"target": str(target), "options": options}
    sandboxed.run("write", arguments, limits=LARGE, writes=[tmp_path], ranged={"source": source})
    assert source.met == 2  # four rows of four blocks each
    assert sum(length > 2**16 for _, length in source.asked) == 4
    with rasterio.open(target) as cog:
        assert np.array_equal(cog.read(), picture(900, 900)[:, 128:640, 128:640])


@pytest.fixture(scope="module")
def attacked() -> Iterator[Sandbox]:
    made = Sandbox("attacks", {"PYTHONPATH": str(CONFINED)})
    yield made
    made.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        (0).to_bytes(8, "little") + (101).to_bytes(4, "little"),  # beyond the end
        (2**64 - 1).to_bytes(8, "little") + (2).to_bytes(4, "little"),
        (0).to_bytes(8, "little") + (0).to_bytes(4, "little"),
        b"GET bronze://in/other.tif HTTP/1.1\r\n\r\n",
        b"../../../../etc/passwd\x00\x00\x00",
    ],
    ids=["behind", "overflow", "empty", "address", "path"],
)
def test_ts2_a_request_that_is_no_range_of_the_file_ends_the_call(
    attacked: Sandbox, tmp_path: Path, request_bytes: bytes
) -> None:
    source = Local(b"x" * 100)
    with pytest.raises(Permanent, match="invalid range of") as refused:
        attacked.run("ask", {"text": request_bytes.hex()}, limits=LIMITS, writes=[tmp_path], ranged={"file": source})
    assert (refused.value.code, source.asked) == ("sandbox.answer", [])


def test_ts2_the_socket_of_a_ranged_file_passes_no_handles_and_reaches_nothing_else(
    attacked: Sandbox, tmp_path: Path
) -> None:
    source = Local(b"0123456789")
    found = attacked.run("misuse_socket", {}, limits=LIMITS, writes=[tmp_path], ranged={"file": source})
    assert found.pop("data") == "234"
    assert found == dict.fromkeys(found, "EPERM")
    assert source.asked == [(2, 3)]


def test_ts2_a_file_is_not_read_for_ever(attacked: Sandbox, tmp_path: Path) -> None:
    source = Local(b"x" * 2**24)
    with pytest.raises(Permanent, match="too many times") as refused:
        attacked.run("read_for_ever", {}, limits=LIMITS, writes=[tmp_path], ranged={"file": source})
    assert refused.value.code == "sandbox.answer"
    assert len(source.asked) == 16


@pytest.mark.slow
def test_r6_windows_of_a_50_gb_tiff_are_exact_and_take_little_disk(tmp_path: Path) -> None:
    """Files of at most 64 MB and 256 MB of memory: the kernel would end the call beyond its limits."""
    settings = RasterSettings(raster_memory_mb=256, raster_file_mb=64, raster_max_mb=65_536)
    with serve_huge_tiff() as cloud:
        ctx, bucket = context(tmp_path, cloud, settings)
        source = open_pinned(ctx)
        assert isinstance(source, Ranges)
        looked = run_in_sandbox(ctx, "look", Checked, path=source, options=ValidateOptions(), settings=settings)
        assert (looked.raster.size_bytes, looked.raster.width) == (SIZE, SIDE)
        chance, target = random.Random(50), sandbox_folder(ctx) / "cog.tif"
        before, under = bucket.read_bytes, 0
        for _ in range(20):
            column, row = chance.randrange(SIDE - 1_500), chance.randrange(SIDE - 1_500)
            window = Window(column=column, row=row, width=1_500, height=1_200)
            options = CogOptions(kind=looked.raster.kind, window=window, memory_mb=256)
            run_in_sandbox(ctx, "write", Written, source=source, target=target, options=options)
            with rasterio.open(target) as cog:
                assert np.array_equal(cog.read(1), pixels_at(row, column, 1_200, 1_500))
            columns = (column + 1_499) // TILE - column // TILE + 1
            under += columns * ((row + 1_199) // TILE - row // TILE + 1) * TILE**2 * 2
        assert bucket.read_bytes - before <= 1.3 * under
        assert bucket.read_bytes - SIZE < GB, "all of it is read once, for its SHA-256"
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < GB
