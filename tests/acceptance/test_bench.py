"""Each benchmark runs, small, through real processes, and prints what it promises."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def bench(database_url: str, home: Path, *arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    program = [sys.executable, "-m", "anabranch", "bench", *arguments, "--database-url", database_url, "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    environment["ANABRANCH_HOME"] = str(home)
    done = subprocess.run(
        program, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def test_a_fan_out_is_advanced_once_and_every_task_is_counted(database_url: str, tmp_path: Path) -> None:
    figures = bench(database_url, tmp_path, "fanout", "--tasks", "200", "--workers", "1")

    assert figures["tasks"] == 200
    assert figures["advances"] == 1
    assert figures["tasks_per_s"] == pytest.approx(200 / figures["wall_s"], rel=0.01)
    assert 0 < figures["start_p50_ms"] <= figures["start_p99_ms"] < 1000 * figures["wall_s"]


def test_the_hops_of_a_chain_are_measured_for_each_kind_of_handler(database_url: str, tmp_path: Path) -> None:
    figures = bench(database_url, tmp_path, "chain", "--steps", "5", "--workers", "1")

    assert figures["steps"] == 5
    assert figures["hop_p50_ms"] == figures["kinds"]["plain"]["hop_p50_ms"]
    assert set(figures["kinds"]) == {"quick", "async", "plain"}
    assert all(0 < hops["hop_p50_ms"] <= hops["hop_p99_ms"] for hops in figures["kinds"].values())


def test_many_small_jobs_all_complete(database_url: str, tmp_path: Path) -> None:
    figures = bench(database_url, tmp_path, "jobs", "--jobs", "20", "--workers", "1")

    assert figures["jobs"] == 20
    assert figures["jobs_per_s"] > 0
    assert 0 < figures["job_p50_ms"] <= figures["job_p99_ms"]


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_jobs_through_http_are_measured_with_few_and_with_many_in_the_table(database_url: str, tmp_path: Path) -> None:
    figures = bench(database_url, tmp_path, "http", "--jobs", "2000", "--seconds", "1", "--connections", "8")

    assert figures["few"]["jobs"] < figures["many"]["jobs"] >= 2000
    for load in (figures[name][kind] for name in ("few", "many") for kind in ("submit", "status")):
        assert load["errors"] == 0
        assert load["per_s"] > 0
        assert 0 < load["p50_ms"] <= load["p99_ms"]


def test_without_a_url_nothing_is_left_behind(tmp_path: Path) -> None:
    temporary = tmp_path / "t"  # a socket in it has a path of at most 107 bytes
    temporary.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    program = [sys.executable, "-m", "anabranch", "bench", "fanout", "--tasks", "10", "--workers", "1"]
    done = subprocess.run(
        program, env={**environment, "TMPDIR": str(temporary)}, capture_output=True, text=True, timeout=100, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "tasks_per_s" in done.stdout
    assert not list(temporary.glob("anabranch-bench-*"))


def test_the_bench_of_cogs_compares_us_with_the_driver() -> None:
    program = [sys.executable, "-m", "anabranch", "bench", "cog", "--size", "600", "--runs", "1", "--json"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["raw_mb"] == pytest.approx(1.1)
    assert figures["ratio"] == pytest.approx(figures["mb_per_s"] / figures["plain_mb_per_s"], rel=0.1)
    assert 0 < figures["peak_mb"] < 1024


def test_items_are_ingested_by_the_engine_and_by_pypgstac(catalog_url: str, tmp_path: Path) -> None:
    figures = bench(catalog_url, tmp_path, "ingest", "--items", "50", "--rounds", "1", "--workers", "1")

    assert (figures["items"], figures["rounds"]) == (50, 1)
    assert figures["items_per_s"] == pytest.approx(50 / figures["wall_s"], rel=0.01)
    assert figures["ratio"] == pytest.approx(figures["items_per_s"] / max(figures["pypgstac"].values()), abs=0.01)


@pytest.mark.skipif(shutil.which("ogr2ogr") is None, reason="apt-get install gdal-bin")
def test_layers_are_published_by_the_engine_and_loaded_by_ogr2ogr(catalog_url: str, tmp_path: Path) -> None:
    figures = bench(catalog_url, tmp_path, "vector", "--rows", "1000", "--rounds", "2", "--workers", "1")
    assert (figures["rows"], {*figures["ratio"]}) == (1000, {"points", "polygons"})
    assert all(rate > 0 for rate in figures["rows_per_s"].values())
