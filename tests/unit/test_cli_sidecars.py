"""Files that go with the upload of a raster."""

from pathlib import Path

import pytest

from anabranch.cli.jobs.sidecars import find_sidecars

STATISTICS = "<PAMDataset><Metadata><MDI key='STATISTICS_MEAN'>1</MDI></Metadata></PAMDataset>"
NODATA = "<PAMDataset><PAMRasterBand band='1'><NoDataValue>0</NoDataValue></PAMRasterBand></PAMDataset>"
AUX = "a.tif.aux.xml"


@pytest.mark.parametrize(
    ("raster", "beside", "taken"),
    [
        ("a.tif", ["a.tfw", "a.prj", "a.tif.msk", "b.tfw", "a.txt"], ["a.prj", "a.tfw", "a.tif.msk"]),
        ("A.TIF", ["A.TFW", "a.tifw"], ["A.TFW"]),
        ("a.png", ["a.pgw", "a.tfw"], ["a.pgw"]),
        ("a.jpeg", ["a.jgw", "a.wld"], ["a.jgw"]),
        ("a", ["a.prj", "a.aux.xml"], ["a.prj"]),
    ],
)
def test_sidecars_are_found_by_their_names(tmp_path: Path, raster: str, beside: list[str], taken: list[str]) -> None:
    for name in (raster, *beside):
        (tmp_path / name).write_text(STATISTICS)
    assert sorted(file.name for file in find_sidecars(tmp_path / raster)) == taken


@pytest.mark.parametrize(("text", "taken"), [(STATISTICS, []), (NODATA, [AUX]), ("no xml", [AUX])])
def test_e15_statistics_alone_are_left_out(tmp_path: Path, text: str, taken: list[str]) -> None:
    """Otherwise a raster would be another job after QGIS has shown it."""
    (tmp_path / "a.tif").touch()
    (tmp_path / AUX).write_text(text)
    assert [file.name for file in find_sidecars(tmp_path / "a.tif")] == taken
