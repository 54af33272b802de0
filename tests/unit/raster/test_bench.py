"""The benchmark of COGs runs, and counts what it promises."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_bench_of_cogs_compares_us_with_the_driver() -> None:
    program = [sys.executable, "-m", "anabranch", "bench", "cog", "--size", "600", "--runs", "1", "--json"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["raw_mb"] == pytest.approx(1.1)
    assert figures["ratio"] == pytest.approx(figures["mb_per_s"] / figures["plain_mb_per_s"], rel=0.1)
    assert 0 < figures["peak_mb"] < 1024
