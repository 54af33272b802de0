"""Measures the writing of a COG, compared with GDAL's COG driver, each time in a new process."""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from anabranch.errors import AnabranchError

__all__ = ["CogFigures", "run_cog_bench"]

MB = 1_000_000
WRITERS = ("ours", "plain", "same")
# The usual options for a lossless COG with all cores.
PLAIN_OPTIONS = {"COMPRESS": "ZSTD", "PREDICTOR": "YES", "OVERVIEW_RESAMPLING": "AVERAGE", "NUM_THREADS": "ALL_CPUS"}
ROWS = 512


@dataclass(frozen=True)
class CogFigures:
    """Medians over interleaved runs; a ratio above one means that ours is faster."""

    size: int
    runs: int
    raw_mb: float
    mb_per_s: float
    plain_mb_per_s: float
    ratio: float
    ratio_same_options: float
    peak_mb: float
    plain_peak_mb: float
    output_mb: float
    plain_output_mb: float


@dataclass(frozen=True)
class Run:
    """One COG, written by one process."""

    seconds: float
    peak_mb: float
    output_mb: float


def run_cog_bench(size: int, *, runs: int = 3, memory_mb: int = 1024) -> CogFigures:
    """Write the COG of a three-band image several times, alternating between our writer and the driver alone."""
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        source = Path(folder) / "source.tif"
        _make(source, size)
        found: dict[str, list[Run]] = {way: [] for way in WRITERS}
        for number in range(runs):
            for way in WRITERS if number % 2 == 0 else reversed(WRITERS):
                found[way].append(_start(way, source, memory_mb))
    return _figures(size, runs, found)


def _figures(size: int, runs: int, found: dict[str, list[Run]]) -> CogFigures:
    seconds = {way: median(run.seconds for run in done) for way, done in found.items()}
    raw = 3 * size * size / MB
    ours, plain = found["ours"][0], found["plain"][0]
    return CogFigures(
        size=size,
        runs=runs,
        raw_mb=round(raw, 1),
        mb_per_s=round(raw / seconds["ours"], 1),
        plain_mb_per_s=round(raw / seconds["plain"], 1),
        ratio=round(seconds["plain"] / seconds["ours"], 2),
        ratio_same_options=round(seconds["same"] / seconds["ours"], 2),
        peak_mb=max(run.peak_mb for run in found["ours"]),
        plain_peak_mb=max(run.peak_mb for run in found["plain"]),
        output_mb=ours.output_mb,
        plain_output_mb=plain.output_mb,
    )


def _start(way: str, source: Path, memory_mb: int) -> Run:
    program = [sys.executable, "-m", "anabranch.plugins.raster.cog.bench", way, str(source), str(memory_mb)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AnabranchError("bench.failed", f"writing a COG failed: {done.stderr.strip()[-500:]}")
    return Run(**json.loads(done.stdout))


def _make(path: Path, size: int) -> None:
    """An image of waves and a little noise, tiled and not compressed."""
    import numpy as np
    import rasterio
    from rasterio.transform import from_origin
    from rasterio.windows import Window

    random = np.random.default_rng(1)
    options = {"width": size, "height": size, "count": 3, "dtype": "uint8", "tiled": True, "interleave": "pixel"}
    placed = {"crs": "EPSG:32633", "transform": from_origin(500_000, 5_000_000, 10, 10)}
    with rasterio.open(path, "w", driver="GTiff", bigtiff="if_safer", **options, **placed) as out:
        for row in range(0, size, ROWS):
            y, x = np.mgrid[row : min(size, row + ROWS), 0:size].astype(np.float32)
            waves = np.stack([np.sin(x / (211 + 13 * band)) * np.cos(y / 173) for band in range(3)])
            noise = random.normal(0, 3, waves.shape).astype(np.float32)
            pixels = np.clip(128 + 90 * waves + noise, 0, 255).astype(np.uint8)
            out.write(pixels, window=Window(0, row, size, y.shape[0]))


def _write(way: str, source: Path, target: Path, memory_mb: int) -> None:
    import rasterio
    from rasterio.shutil import copy

    from anabranch.plugins.raster.cog.target_view import open_view
    from anabranch.plugins.raster.cog.write import creation_options, write_cog
    from anabranch.plugins.raster.models import CogOptions, Kind

    options = CogOptions(kind=Kind.RGB, memory_mb=memory_mb)
    if way == "ours":
        write_cog(source, target, options)
        return
    with open_view(source, options) as view:
        asked = PLAIN_OPTIONS if way == "plain" else creation_options(view)
    with rasterio.open(source) as src:
        copy(src, target, driver="COG", **asked)


def _peak_mb() -> float:
    # Not ru_maxrss: it survives exec, and would include the process that started this one.
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)


def _main(way: str, source: str, memory_mb: str) -> None:
    import anabranch.plugins.raster.cog.write  # noqa: F401 - imports are not what is measured

    target = Path(source).with_name(f"{way}.tif")
    begun = time.monotonic()
    _write(way, Path(source), target, int(memory_mb))
    seconds = time.monotonic() - begun
    run = Run(seconds, _peak_mb(), round(target.stat().st_size / MB, 1))
    target.unlink()
    sys.stdout.write(json.dumps(asdict(run)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
