"""Installed packages bring plugins, settings and error codes, and any of ours can leave."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support.packages import install_package

ROOT = Path(__file__).parents[2]
WELLS = """
from pydantic import BaseModel, Field

class WellSettings(BaseModel):
    wells_depth: int = Field(100, ge=1)
    wells_key: str = ""
"""
CODES = """
from anabranch.codes import Code
from anabranch.errors import Kind

CODES = (Code("wells.dry", Kind.TASK, "The well is dry.", "Dig deeper."),)
"""
FIND = "from anabranch.codes import find_code; print(*find_code({!r}))"
# All but the command that publishes sample rasters.
IMPORT_ALL = """
import importlib, pkgutil, anabranch
for found in pkgutil.walk_packages(anabranch.__path__, "anabranch."):
    if not found.name.endswith(("__main__", "vector.sandbox_functions")) and found.name != "anabranch.cli.jobs.demo":
        importlib.import_module(found.name)
"""
NAMED_WRONGLY = "error: the setting 'wells_depth' must begin with well_\nFix the plugin as the message says.\n"
ENGINE_TESTS = ("test_plugin.py", "test_evaluator.py", "test_retry.py", "test_failure.py")


def run(path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with a folder first on its path, and its home there."""
    environment = os.environ | {"PYTHONPATH": str(path), "ANABRANCH_HOME": str(path / "home")} | variables
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def show_config(path: Path, **variables: str) -> dict[str, dict[str, object]]:
    shown = run(path, "-m", "anabranch", "config", "show", "--json", **variables)
    assert shown.returncode == 0, shown.stderr
    settings: dict[str, dict[str, object]] = json.loads(shown.stdout)["settings"]
    return settings


def write_config(path: Path, text: str) -> Path:
    (path / "home").mkdir()
    file = path / "home" / "anabranch.toml"
    file.write_text(text)
    return file


def test_an_installed_plugin_brings_settings_and_codes(tmp_path: Path) -> None:
    groups = {"anabranch.settings": {"wells": "wells:WellSettings"}, "anabranch.codes": {"wells": "well_codes:CODES"}}
    install_package(tmp_path, "wells", groups, wells=WELLS, well_codes=CODES)
    file = write_config(tmp_path, 'wells_key = "k"\n')
    shown = show_config(tmp_path, ANABRANCH_WELLS_DEPTH="7")
    assert list(shown)[-2:] == ["wells_depth", "wells_key"]
    assert shown["wells_depth"] == {"value": 7, "origin": "environment ANABRANCH_WELLS_DEPTH"}
    assert shown["wells_key"] == {"value": "k", "origin": f"file {file}"}
    wrong = run(tmp_path, "-m", "anabranch", "config", "show", ANABRANCH_WELLS_DEPTH="0", ANABRANCH_PORT="-1")
    assert "ANABRANCH_PORT: " in wrong.stderr
    assert "ANABRANCH_WELLS_DEPTH: Input should be greater than or equal to 1" in wrong.stderr
    assert "The well is dry. Dig deeper." in run(tmp_path, "-c", FIND.format("wells.dry")).stdout


def test_a_setting_without_the_name_of_its_plugin_is_refused(tmp_path: Path) -> None:
    groups = {"anabranch.settings": {"well": "wells:WellSettings"}}
    install_package(tmp_path, "wells", groups, wells=WELLS)
    refused = run(tmp_path, "-m", "anabranch", "config", "show")
    assert (refused.returncode, refused.stderr) == (5, NAMED_WRONGLY)


def test_g5_a_plugin_that_cannot_be_imported_stops_nothing_by_its_settings(tmp_path: Path) -> None:
    install_package(tmp_path, "wells", {"anabranch.settings": {"wells": "wells:WellSettings"}}, wells="1 / 0")
    write_config(tmp_path, "wells_depth = 3\nport = 1234\n")
    shown = show_config(tmp_path)
    assert "wells_depth" not in shown
    assert (shown["port"]["value"], shown["raster_max_mb"]["value"]) == (1234, 65_536)


def test_the_raster_plugin_can_leave(tmp_path: Path) -> None:
    """Settings and codes of the rest mention no raster, and the engine and the command line work."""
    package = shutil.copytree(ROOT / "src" / "anabranch", tmp_path / "anabranch")
    shutil.rmtree(package / "plugins" / "raster")
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    groups = {
        group: {name: value for name, value in points.items() if not value.startswith("anabranch.plugins.raster")}
        for group, points in entry_points.items()
    }
    install_package(tmp_path, "anabranch", groups)
    for name in ("settings.py", "codes.py"):
        assert "raster" not in (package / name).read_text().lower()

    imported = run(tmp_path, "-c", IMPORT_ALL)
    assert imported.returncode == 0, imported.stderr

    listed = run(tmp_path, "-m", "anabranch", "workflows", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert "hello_world" in listed.stdout
    assert "process_raster" not in listed.stdout
    assert not [name for name in show_config(tmp_path) if "raster" in name]
    assert "There is no such job." in run(tmp_path, "-c", FIND.format("job.not_found")).stdout
    assert run(tmp_path, "-c", FIND.format("raster.crs_missing")).returncode == 1

    tests = [str(ROOT / "tests" / "unit" / name) for name in ENGINE_TESTS]
    tested = run(tmp_path, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *tests)
    assert tested.returncode == 0, tested.stdout
