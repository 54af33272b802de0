"""Pictures, archives and sidecars: what is used of them, and what is refused."""

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine

from anabranch.errors import Permanent
from anabranch.plugins.raster.files.magic_bytes import FileFormat
from anabranch.plugins.raster.files.reader import open_as, quiet
from anabranch.plugins.raster.formats.extract import extract
from anabranch.plugins.raster.formats.models import Choice, Extracted
from anabranch.plugins.raster.settings import RasterSettings
from tests.support.formats import WGS84_WKT, convert, make_zip, world_file
from tests.support.rasters import GRID, Pixels, classes, hills, make_raster, picture

Take = Callable[..., tuple[Extracted, Path]]
Reason = Callable[..., Permanent]


@pytest.fixture
def take(tmp_path: Path) -> Take:
    """Extract a raster with its sidecars; what was made, and the GeoTIFF."""

    def call(path: Path, *, settings: RasterSettings | None = None, **beside: Any) -> tuple[Extracted, Path]:
        folder = tmp_path / "made"
        folder.mkdir(exist_ok=True)
        given: Any = beside  # by their kinds
        made = extract(path, folder, Choice(), given, settings or RasterSettings(), lambda *_: None)
        return made, folder / made.file if made.file else path

    return call


@pytest.fixture
def reason(take: Take) -> Reason:
    """The error that refuses a file."""

    def call(path: Path, **beside: Any) -> Permanent:
        with pytest.raises(Permanent) as caught:
            take(path, **beside)
        assert caught.value.remedy
        return caught.value

    return call


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A GeoTIFF without a position."""
    return make_raster(tmp_path / "a.tif", hills(30, 20), crs=None, transform=None)


def aux_xml(path: Path, text: str) -> Path:
    path.write_text(f"<PAMDataset>{text}</PAMDataset>")
    return path


@pytest.mark.parametrize(("driver", "suffix", "exact"), [("PNG", ".png", True), ("JPEG", ".jpg", False)])
def test_a_picture_with_a_world_file_is_placed(
    take: Take, tmp_path: Path, driver: str, suffix: str, exact: bool
) -> None:
    pixels = picture(64, 48)
    path = convert(tmp_path / f"a{suffix}", driver, pixels, placed=False)
    made, made_path = take(path, world=world_file(tmp_path / "a.wld"))
    with rasterio.open(made_path) as src:
        assert (src.transform, src.count, src.dtypes[0]) == (GRID, 3, "uint8")
        assert np.abs(src.read().astype(int) - pixels).max() <= (0 if exact else 40)
        assert [colour.name for colour in src.colorinterp] == ["red", "green", "blue"]
    assert made.origin is not None
    assert made.origin.applied == ("the geotransform of a.wld",)


def test_r3_a_palette_and_an_alpha_band_survive(take: Take, tmp_path: Path) -> None:
    palette = {1: (255, 0, 0, 255), 7: (0, 255, 0, 255), 40: (0, 0, 255, 255)}
    plain = make_raster(tmp_path / "plain.tif", classes(64, 48), palette=palette)
    path = tmp_path / "a.png"
    with quiet():
        rasterio.shutil.copy(plain, path, driver="PNG")
    _, made = take(path, world=world_file(tmp_path / "a.pgw"))
    with rasterio.open(made) as src:
        assert src.colormap(1)[7] == (0, 255, 0, 255)
    _, made = take(convert(tmp_path / "b.png", "PNG", picture(64, 48, 4)), world=tmp_path / "a.pgw")
    with rasterio.open(made) as src:
        assert src.colorinterp[3].name == "alpha"


def test_a_world_file_and_a_prj_place_a_tiff_without_a_position(take: Take, bare: Path, tmp_path: Path) -> None:
    (tmp_path / "a.prj").write_text(WGS84_WKT)
    _, made = take(bare, world=world_file(tmp_path / "a.tfw", 0.25, 10, 50), prj=tmp_path / "a.prj")
    with rasterio.open(made) as src:
        assert (src.crs.to_epsg(), src.transform) == (4326, Affine(0.25, 0, 10, 0, -0.25, 50))
        assert np.array_equal(src.read(), hills(30, 20))


def test_the_rasters_own_position_wins(take: Take, tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif", hills(30, 20))
    same, other = world_file(tmp_path / "a.tfw"), world_file(tmp_path / "b.tfw", 20)
    assert take(path, world=same)[0] == Extracted()
    made, made_path = take(path, world=other)
    assert made_path == path
    assert [notice.code for notice in made.notices] == ["raster.sidecar_unused"]


@pytest.mark.parametrize(
    "text", ["10\n0\n0\n-10\n5\n", "10\n0\n0\nten\n5\n5\n", "0\n0\n0\n0\n5\n5\n", "nan " * 6, "\x00" * 99]
)
def test_a_world_file_that_is_none_is_refused(reason: Reason, bare: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.tfw").write_text(text)
    assert reason(bare, world=tmp_path / "a.tfw").code == "raster.sidecar"


@pytest.mark.parametrize("text", ["Projection UTM\nZone 33\n", "https://example.org/crs", "PROJCS[" * 500, "+proj=utm"])
def test_s2_a_prj_that_is_no_wkt_reaches_no_parser(take: Take, bare: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.prj").write_text(text)
    made, _ = take(bare, prj=tmp_path / "a.prj")
    assert [notice.code for notice in made.notices] == ["raster.sidecar_unused"]
    assert made.origin is None


def make_mask(path: Path, valid: Pixels) -> Path:
    made = make_raster(path.with_suffix(".tif"), valid[None].astype("uint8") * 255, transform=None, crs=None)
    return made.rename(path)


def test_tr3_a_mask_file_becomes_the_mask(take: Take, tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif", picture(64, 48))
    valid = np.indices((48, 64)).sum(axis=0) % 5 > 0
    _, made = take(path, mask=make_mask(tmp_path / "a.tif.msk", valid))
    with rasterio.open(made) as src:
        assert np.array_equal(src.dataset_mask() > 0, valid)
        assert np.array_equal(src.read(), picture(64, 48))


def test_a_mask_of_another_size_is_refused(reason: Reason, tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif", picture(64, 48))
    error = reason(path, mask=make_mask(tmp_path / "a.tif.msk", np.ones((20, 20), bool)))
    assert error.code == "raster.sidecar"
    assert error.message == "a.tif.msk has 20 x 20 pixels, and the raster 64 x 48"


@pytest.mark.parametrize("own", [{"nodata": 0}, {"mask": np.ones((48, 64), bool)}])
def test_tr3_a_mask_that_is_not_used_is_a_warning(take: Take, tmp_path: Path, own: dict[str, Any]) -> None:
    path = make_raster(tmp_path / "a.tif", picture(64, 48), **own)
    made, _ = take(path, mask=make_mask(tmp_path / "a.tif.msk", np.ones((48, 64), bool)))
    assert [notice.code for notice in made.notices] == ["raster.mask_beside"]


def test_a_mask_that_is_no_tiff_is_a_warning(take: Take, tmp_path: Path) -> None:
    (tmp_path / "a.msk").write_text('<VRTDataset rasterXSize="64"/>')
    made, _ = take(make_raster(tmp_path / "a.tif", picture(64, 48)), mask=tmp_path / "a.msk")
    assert [notice.code for notice in made.notices] == ["raster.mask_beside"]


def test_r3_aux_xml_gives_names_units_scales_nodata_and_crs(take: Take, bare: Path, tmp_path: Path) -> None:
    band = '<PAMRasterBand band="1"><Description>height</Description><UnitType>m</UnitType><Scale>0.5</Scale>'
    band += "<NoDataValue>-1</NoDataValue><Metadata><MDI key='STATISTICS_MEAN'>4</MDI></Metadata></PAMRasterBand>"
    place = f"<SRS>{WGS84_WKT}</SRS><GeoTransform>10, 0.25, 0, 50, 0, -0.25</GeoTransform>"
    made, path = take(bare, aux=aux_xml(tmp_path / "a.tif.aux.xml", place + band))
    with rasterio.open(path) as src:
        assert (src.descriptions, src.units, src.scales, src.nodata) == (("height",), ("m",), (0.5,), -1)
        assert (src.crs.to_epsg(), src.transform.c) == (4326, 10)
        assert "STATISTICS_MEAN" not in src.tags(1)
    assert not made.notices


def test_aux_xml_with_statistics_only_changes_nothing(take: Take, tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif", hills(30, 20))
    text = "<PAMRasterBand band='1'><Metadata><MDI key='STATISTICS_MEAN'>4</MDI></Metadata></PAMRasterBand>"
    assert take(path, aux=aux_xml(tmp_path / "a.tif.aux.xml", text)) == (Extracted(), path)


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE a [<!ENTITY b "c">]><PAMDataset>&b;</PAMDataset>',
        "<a>" * 40,
        "<PAMDataset>" + "<MDI/>" * 30_000,
        "no xml",
        "<PAMDataset><Metadata domain='OVERVIEWS'/><PAMRasterBand band='1'><Mask/></PAMRasterBand></PAMDataset>",
    ],
)
def test_s7_an_aux_xml_that_is_not_understood_is_a_warning(take: Take, bare: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.aux.xml").write_text(text)
    made, _ = take(bare, aux=tmp_path / "a.aux.xml")
    assert [notice.code for notice in made.notices] == ["raster.sidecar_unused"]


@pytest.mark.parametrize(
    ("driver", "suffix", "pixels"),
    [("HFA", ".img", hills(80, 60)), ("AAIGrid", ".asc", hills(80, 60, "int16")), ("HFA", ".img", classes(80, 60))],
)
def test_r3_other_single_files_keep_their_pixels(
    take: Take, tmp_path: Path, driver: str, suffix: str, pixels: Pixels
) -> None:
    made, path = take(convert(tmp_path / f"a{suffix}", driver, pixels))
    with rasterio.open(path) as src:
        assert np.array_equal(src.read().astype(pixels.dtype), pixels)
        assert src.transform == GRID
    assert made.origin is not None
    assert made.origin.driver == driver


def test_a_dted_cell_keeps_its_pixels(take: Take, tmp_path: Path) -> None:
    cell = Affine(1 / 120, 0, 10 - 1 / 240, 0, -1 / 120, 11 + 1 / 240)  # farther north, cells have fewer columns
    plain = make_raster(tmp_path / "plain.tif", hills(121, 121, "int16"), crs="EPSG:4326", transform=cell)
    rasterio.shutil.copy(plain, tmp_path / "n10.dt0", driver="DTED")
    _, path = take(tmp_path / "n10.dt0")
    with rasterio.open(path) as src:
        assert np.array_equal(src.read(), hills(121, 121, "int16"))
        assert src.crs.to_epsg() == 4326


def test_a_driver_that_gdal_lacks_is_named_with_the_conversion(tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.ecw", hills(30, 20))
    with pytest.raises(
        Permanent, match=r"a.ecw is an ECW file, and this build of GDAL .* has no driver ECW"
    ) as refused:
        open_as(path, FileFormat("an ECW file", drivers=("ECW",)), "ECW", path)
    assert refused.value.code == "raster.driver_missing"
    assert "`gdal_translate -of COG a.ecw out.tif`" in refused.value.remedy


def test_a_zip_with_a_raster_and_its_sidecars(take: Take, bare: Path, tmp_path: Path) -> None:
    world = world_file(tmp_path / "a.tfw")
    files: dict[str, bytes | Path] = {"x/a.tif": bare, "x/a.tfw": world, "__MACOSX/x/._a.tif": bare, "x/read.me": b"-"}
    made, path = take(make_zip(tmp_path / "a.zip", files))
    with rasterio.open(path) as src:
        assert src.transform == GRID
        assert np.array_equal(src.read(), hills(30, 20))
    assert made.origin is not None
    assert made.origin.member == "x/a.tif"


def test_a_zip_with_a_geotiff_and_a_preview(take: Take, tmp_path: Path) -> None:
    preview = convert(tmp_path / "preview.png", "PNG", picture(64, 48), placed=False)
    path = make_raster(tmp_path / "a.tif", hills(30, 20))
    made, made_path = take(make_zip(tmp_path / "a.zip", {"a.tif": path, "preview.png": preview}))
    assert made_path.read_bytes() == path.read_bytes()
    assert [notice.code for notice in made.notices] == ["raster.pictures_beside"]


def link(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", ". in a.zip has an unsafe name"),
        ("a" * 300 + ".tif", "has a name that is too long"),
        ("../a.tif", "../a.tif in a.zip has an unsafe name"),
        ("/etc/a.tif", "/etc/a.tif in a.zip has an unsafe name"),
        ("x\\..\\a.tif", "has an unsafe name"),
        (link("a.tif", stat.S_IFLNK | 0o777), "a.tif in a.zip is a link or a special file"),
    ],
)
def test_s4_unsafe_names_and_links_are_refused(
    reason: Reason, tmp_path: Path, name: str | zipfile.ZipInfo, words: str
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, b"II*\x00")
    error = reason(tmp_path / "a.zip")
    assert (error.code, words in error.message) == ("raster.archive", True), error.message


def test_s4_a_password_is_refused(reason: Reason, tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.tif": b"II*\x00"})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert "is protected by a password" in reason(path).message


def test_s4_duplicates_nesting_and_counts_are_refused(reason: Reason, tmp_path: Path) -> None:
    assert "twice" in reason(make_zip(tmp_path / "a.zip", {"a.tif": b"II*\x00", "A.TIF": b"II*\x00"})).message
    nested = make_zip(tmp_path / "inner.zip", {"a.tif": b"II*\x00"})
    assert "archives in archives" in reason(make_zip(tmp_path / "b.zip", {"inner.bin": nested})).message
    many: dict[str, bytes | Path] = {f"{number}.txt": b"" for number in range(20)}
    few = RasterSettings(raster_archive_files=10)
    assert "20 files, over the limit of 10" in reason(make_zip(tmp_path / "c.zip", many), settings=few).message


def test_s4_a_bomb_is_refused_before_it_is_unpacked(reason: Reason, tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.tif": b"II*\x00" + b"\x00" * 80_000_000})
    assert "times larger than packed, over the limit of 100" in reason(path).message
    small = RasterSettings(raster_max_mb=1, raster_archive_ratio=10_000)
    assert "have 76 MB, over the limit of 1" in reason(path, settings=small).message
    assert not (tmp_path / "made" / "member").exists()


def test_two_rasters_and_none_are_refused_with_the_list(reason: Reason, tmp_path: Path) -> None:
    two = make_zip(tmp_path / "a.zip", {"a.tif": b"II*\x00", "b/c.nc": b"CDF\x01"})
    assert reason(two).message == "a.zip holds 2 rasters: a.tif, b/c.nc"
    none = make_zip(tmp_path / "b.zip", {"a.shp": b"\x00\x00\x27\x0a", "a.dbf": b"\x03"})
    assert reason(none).message == "b.zip holds no raster: it has a.shp, a.dbf"


def test_a_damaged_archive_is_refused(reason: Reason, tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.tif": bytes(range(256)) * 100})
    path.write_bytes(path.read_bytes()[:-30])
    assert "damaged ZIP archive" in reason(path).message
