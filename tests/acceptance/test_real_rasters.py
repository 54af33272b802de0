"""Real files of Debian's packages: each is published as it should be, or refused for the right reason."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.validate import validate
from anabranch.plugins.raster.formats.extract import extract
from anabranch.plugins.raster.formats.models import Choice
from anabranch.plugins.raster.models import Validated
from anabranch.plugins.raster.settings import RasterSettings

ROOT = Path(os.environ.get("DEBIAN_DATA", "/"))  # where the packages are installed, or unpacked
PACKAGES = {
    "ncarg": ("libncarg-data", "usr/share/ncarg/data"),
    "stars": ("r-cran-stars", "usr/lib/R/site-library/stars"),
    "terra": ("r-cran-terra", "usr/lib/R/site-library/terra"),
}
MISSING = not any((ROOT / folder).is_dir() for _, folder in PACKAGES.values())
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MISSING, reason="apt-get install libncarg-data r-cran-stars r-cran-terra"),
]
Look = Callable[..., Validated]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """The facts of a file of a package, after it was copied and the copy compared with it."""

    def call(package: str, name: str, **choice: Any) -> Validated:
        debian, folder = PACKAGES[package]
        path = ROOT / folder / name
        if not path.is_file():
            pytest.skip(f"{name} is missing: apt-get install {debian}")
        made = extract(path, tmp_path, Choice(**choice), {}, RasterSettings(), lambda *_: None)
        found = validate(tmp_path / made.file if made.file else path)
        return found.model_copy(update={"times": made.times or found.times, "warnings": made.notices})

    return call


@pytest.mark.parametrize(
    ("package", "name", "choice", "shape", "unit", "moment"),
    [
        ("ncarg", "nug/tas_rectilinear_grid_2D.nc", {"time": "2005-01-16T12:00:00Z"}, (192, 96), "K", "2005-01-16T12"),
        ("ncarg", "cdf/trinidad.nc", {}, (2401, 1201), "", None),
        ("ncarg", "grb/fh.0012_tl.press_gr.awp211.grb2", {"variable": "MSLET"}, (93, 65), "Pa", "2007-01-24T12"),
        ("stars", "nc/bcsd_obs_1999.nc", {"variable": "pr", "time": "1999-01-31"}, (81, 33), "mm/m", "1999-01-31T00"),
        ("stars", "nc/EURO-CORDEX_81_DOMAIN000_mask_int.nc.zip", {}, (530, 530), "1", None),
        ("stars", "tif/L7_ETMs.tif", {}, (349, 352), "", None),
        ("terra", "ex/elev.tif", {}, (95, 90), "", None),
    ],
)
def test_a_real_file_can_be_published(
    look: Look, package: str, name: str, choice: dict[str, str], shape: tuple[int, int], unit: str, moment: str | None
) -> None:
    found = look(package, name, **choice)
    assert ((found.width, found.height), found.bands[0].unit) == (shape, unit)
    assert (found.times and found.times.moment and found.times.moment.isoformat()[:13]) == moment


@pytest.mark.parametrize(
    ("package", "name", "choice", "code"),
    [
        ("ncarg", "cdf/contour.cdf", {}, "raster.variable"),
        ("ncarg", "nug/tas_rectilinear_grid_2D.nc", {}, "raster.time"),
        ("ncarg", "cdf/pop.nc", {"variable": "urot"}, "raster.no_georeference"),
        ("ncarg", "cdf/Pstorm.cdf", {"variable": "p[timestep=0]"}, "raster.crs_missing"),
        ("ncarg", "cdf/95031800_sao.cdf", {"variable": "id"}, "raster.variable"),
        ("ncarg", "grb/wafsgfs_L_t06z_intdsk60.grib2", {}, "raster.no_georeference"),
        ("ncarg", "hdf/avhrr.hdf", {}, "raster.format"),
        ("ncarg", "asc/xy.asc", {}, "raster.format"),
    ],
)
def test_a_real_file_is_refused_with_the_reason(
    look: Look, package: str, name: str, choice: dict[str, str], code: str
) -> None:
    with pytest.raises(Permanent) as refused:
        look(package, name, **choice)
    assert refused.value.code == code, refused.value.message


def test_the_files_are_compared_with_the_reader_that_wrote_none_of_them(look: Look) -> None:
    """netCDF4 reads the same numbers that GDAL did."""
    import netCDF4

    found = look("stars", "nc/bcsd_obs_1999.nc", variable="tas", time="1999-02-28")
    path = ROOT / PACKAGES["stars"][1] / "nc/bcsd_obs_1999.nc"
    with netCDF4.Dataset(path) as file:
        assert found.bands[0].statistics is not None
        assert found.bands[0].statistics.maximum == pytest.approx(float(np.nanmax(file["tas"][1])))
    assert found.bands[0].name == "tas"
