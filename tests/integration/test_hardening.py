"""Attacks by files on the sandbox with the raster functions; the secret never leaks (S4)."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import rasterio

from anabranch.errors import TaskError
from anabranch.plugins.raster.files.drivers import gdal_environment
from anabranch.plugins.raster.models import ValidateOptions
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.sandbox import Limits, Sandbox
from tests.support.rasters import hills, make_raster

SECRET = 4242
LIMITS = Limits(memory=2 * 2**30, cpu_seconds=20, file_bytes=2**20)
Attack = Callable[[Path], Path]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox("anabranch.plugins.raster.sandbox_functions", gdal_environment(256))
    yield made
    made.close()


def vrt(folder: Path) -> Path:
    """VRT text that points at another raster, called .tif."""
    path = folder / "vrt.tif"
    path.write_text(
        '<VRTDataset rasterXSize="700" rasterYSize="600"><SRS>EPSG:32633</SRS>'
        "<GeoTransform>0,10,0,0,0,-10</GeoTransform>"
        '<VRTRasterBand dataType="Float32" band="1"><SimpleSource>'
        f"<SourceFilename>{folder / 'secret.tif'}</SourceFilename><SourceBand>1</SourceBand>"
        "</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    return path


def service(folder: Path) -> Path:
    """A file that names a server."""
    path = folder / "wms.tif"
    path.write_text('<GDAL_WMS><Service name="TMS"><ServerUrl>http://127.0.0.1:9/${z}</ServerUrl></Service></GDAL_WMS>')
    return path


def derived(folder: Path) -> Path:
    """A name that is itself a dataset to GDAL."""
    path = folder / "GTIFF_DIR:1:secret.tif"
    path.write_bytes(b"II*\x00")
    return path


def huge_blocks(folder: Path) -> Path:
    """A small file of which one pixel costs 256 MB."""
    path = folder / "blocks.tif"
    shape = {"width": 16_000, "height": 16_000, "count": 1, "dtype": "uint8", "crs": "EPSG:32633"}
    grid = rasterio.transform.from_origin(500_000, 5_000_000, 1, 1)
    tiles = {"tiled": True, "blockxsize": 16_000, "blockysize": 16_000, "compress": "deflate", "sparse_ok": True}
    with rasterio.open(path, "w", driver="GTiff", **shape, transform=grid, **tiles):
        pass
    return path


def sparse(folder: Path) -> Path:
    """A small file that stands for 10 GB."""
    path = folder / "sparse.tif"
    shape = {"width": 100_000, "height": 100_000, "count": 1, "dtype": "uint8", "crs": "EPSG:32633"}
    grid = rasterio.transform.from_origin(500_000, 5_000_000, 1, 1)
    with rasterio.open(path, "w", driver="GTiff", **shape, transform=grid, tiled=True, sparse_ok=True):
        pass
    return path


def loop(folder: Path) -> Path:
    """A TIFF whose directories go round in a circle."""
    path = folder / "loop.tif"
    entry = struct.pack("<HHII", 256, 4, 1, 10)
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 8) + struct.pack("<H", 1) + entry + struct.pack("<I", 8))
    return path


@pytest.mark.parametrize(
    "attack", [vrt, service, derived, huge_blocks, sparse, loop], ids=lambda attack: attack.__name__
)
def test_s4_a_file_that_asks_for_more_than_itself_is_refused(sandbox: Sandbox, tmp_path: Path, attack: Attack) -> None:
    make_raster(tmp_path / "secret.tif", hills() * 0 + SECRET)
    path = attack(tmp_path)
    with pytest.raises(TaskError) as refused:
        look(sandbox, path, tmp_path)
    assert refused.value.code.startswith("raster.")
    assert str(SECRET) not in f"{refused.value.message} {refused.value.remedy}"


@pytest.mark.parametrize("suffix", [".aux.xml", ".ovr", ".msk", ".xml"])
def test_s4_what_lies_beside_a_raster_is_not_read(sandbox: Sandbox, tmp_path: Path, suffix: str) -> None:
    make_raster(tmp_path / "secret.tif", hills() * 0 + SECRET)
    path = make_raster(tmp_path / "honest.tif", hills(), nodata=-1)
    hostile = vrt(tmp_path).read_text()
    metadata = f'<MDI key="OVERVIEW_FILE">{tmp_path}/secret.tif</MDI>'
    pam = f'<PAMDataset><Metadata domain="OVERVIEWS">{metadata}</Metadata></PAMDataset>'
    Path(f"{path}{suffix}").write_text(pam if suffix.endswith("xml") else hostile)
    assert str(SECRET) not in str(look(sandbox, path, tmp_path))


def look(sandbox: Sandbox, path: Path, folder: Path) -> object:
    scratch = folder / "scratch"
    scratch.mkdir()
    options = ValidateOptions().model_dump(mode="json")
    settings = RasterSettings(raster_memory_mb=256).model_dump(mode="json")
    # All of the folder may be read, as where the kernel has no Landlock: the other locks must hold by themselves.
    arguments = {"path": str(path), "options": options, "settings": settings}
    return sandbox.run("look", arguments, limits=LIMITS, writes=[scratch], reads=[folder])


def linked(folder: Path, secret: Path) -> Path:
    """An HDF5 file with a dataset that is a link into another file."""
    import h5py

    with h5py.File(folder / "linked.h5", "w") as file:
        file["heights"] = h5py.ExternalLink(str(secret), "/secret")
    return folder / "linked.h5"


def virtual(folder: Path, secret: Path) -> Path:
    """An HDF5 file with a virtual dataset of another file."""
    import h5py

    layout = h5py.VirtualLayout(shape=(60, 70), dtype="int16")
    layout[:] = h5py.VirtualSource(str(secret), "secret", shape=(60, 70))
    with h5py.File(folder / "virtual.h5", "w") as file:
        file.create_virtual_dataset("heights", layout, fillvalue=1)
    return folder / "virtual.h5"


def external(folder: Path, secret: Path) -> Path:
    """An HDF5 file with a dataset whose bytes are those of another file."""
    import h5py

    with h5py.File(folder / "external.h5", "w") as file:
        file.create_dataset("heights", (60, 70), "int16", external=[(str(secret), 2048, 60 * 70 * 2)])
    return folder / "external.h5"


def spilled(folder: Path, secret: Path) -> Path:
    """An Erdas Imagine file whose pixels are in another file."""
    from rasterio.shutil import copy

    plain = make_raster(folder / "plain.tif", hills(70, 60) * 0 + SECRET)
    copy(plain, folder / "spilled.img", driver="HFA", USE_SPILL="YES")
    return folder / "spilled.img"


@pytest.mark.parametrize("attack", [linked, virtual, external, spilled], ids=lambda attack: attack.__name__)
def test_s4_a_file_that_names_another_does_not_read_it(
    sandbox: Sandbox, tmp_path: Path, attack: Callable[[Path, Path], Path]
) -> None:
    """Landlock keeps the other file closed; its value is found neither in the answer nor in what was written."""
    import h5py
    import numpy as np

    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["secret"] = np.full((60, 70), SECRET, "int16")
    path = attack(tmp_path, secret)
    assert leaks(sandbox, path, tmp_path / "open", reads=[tmp_path])  # it is an attack
    assert not leaks(sandbox, path, tmp_path / "closed", reads=[path])


def leaks(sandbox: Sandbox, path: Path, scratch: Path, reads: list[Path]) -> bool:
    """Whether the secret is in the answer, or in what was written."""
    scratch.mkdir()
    arguments = {"source": str(path), "folder": str(scratch), "choice": {}, "settings": {"raster_memory_mb": 256}}
    try:
        found = str(sandbox.run("extract", arguments, limits=LIMITS, writes=[scratch], reads=reads))
    except TaskError as error:
        found = f"{error.message} {error.remedy}"
    written = b"".join(file.read_bytes() for file in scratch.rglob("*") if file.is_file())
    pixels = (struct.pack("<h", SECRET) * 4, struct.pack("<f", SECRET) * 4)
    return str(SECRET) in found or any(each in written for each in pixels)


def test_s4_without_landlock_formats_that_may_name_files_are_refused(tmp_path: Path) -> None:
    made = Sandbox("anabranch.plugins.raster.sandbox_functions", gdal_environment(256), newest_landlock=0)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = linked(tmp_path, tmp_path / "secret.h5")
    arguments = {"source": str(path), "folder": str(scratch), "choice": {}, "settings": {"raster_memory_mb": 256}}
    try:
        with pytest.raises(TaskError) as refused:
            made.run("extract", arguments, limits=LIMITS, writes=[scratch], reads=[path])
    finally:
        made.close()
    assert refused.value.code == "raster.unconfined"
