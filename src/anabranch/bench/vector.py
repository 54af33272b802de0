"""Measures process_vector through the whole engine, and ogr2ogr with COPY, with the same files in turns."""

import asyncio
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from anabranch.bench.measure import Bench, make_token
from anabranch.canonical import JsonObject
from anabranch.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["VectorFigures", "measure_vector"]

WORKFLOW = "process_vector"
KINDS = ("points", "polygons")
SIDES = 10
WARM_ROWS = 1_000
BATCH_ROWS = 100_000


@dataclass(frozen=True)
class VectorFigures:
    """Rows a second into an indexed table, of both, by the kind of geometry; memory is that of the sandbox."""

    rows: int
    rounds: int
    wall_s: dict[str, float]
    rows_per_s: dict[str, float]
    ogr2ogr_rows_per_s: dict[str, float]
    ratio: dict[str, float]
    peak_mb: int


async def measure_vector(bench: Bench, rows: int, rounds: int) -> VectorFigures:
    """Measure both in turns, after a round of few rows that is not counted."""
    ogr2ogr = _find_ogr2ogr()
    ours: dict[str, list[float]] = {kind: [] for kind in KINDS}
    theirs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with TemporaryDirectory() as folder:
        for kind in KINDS:
            small, large = (_write(Path(folder) / f"{kind}-{count}.gpkg", kind, count) for count in (WARM_ROWS, rows))
            await _publish(bench, small)
            for _ in range(rounds):
                ours[kind].append(await _publish(bench, large))
                theirs[kind].append(await asyncio.to_thread(_run_ogr2ogr, ogr2ogr, bench.url, large))
    rates = {kind: float(round(rows / median(found))) for kind, found in ours.items()}
    peers = {kind: float(round(rows / median(found))) for kind, found in theirs.items()}
    return VectorFigures(
        rows=rows,
        rounds=rounds,
        wall_s={kind: round(median(found), 2) for kind, found in ours.items()},
        rows_per_s=rates,
        ogr2ogr_rows_per_s=peers,
        ratio={kind: round(rates[kind] / peers[kind], 2) for kind in KINDS},
        peak_mb=await bench.read_sandbox_peak(),
    )


def _find_ogr2ogr() -> str:
    """Debian's ogr2ogr, installed if that is allowed."""
    if shutil.which("ogr2ogr") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "--yes", "--quiet", "gdal-bin"], check=True, capture_output=True)
    if found := shutil.which("ogr2ogr"):
        return found
    what = "there is no ogr2ogr to compare with"
    raise Unavailable("bench.no_peer", what, remedy="Install it: sudo apt-get install gdal-bin")


def _write(path: Path, kind: str, rows: int) -> Path:
    """A GeoPackage with five attributes, and features all over the map in no order."""
    import pyarrow as pa
    import pyogrio

    batches = _make_batches(kind, rows)
    first = next(batches)
    pyogrio.write_arrow(
        pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)),
        path,
        driver="GPKG",
        geometry_name="geometry",
        geometry_type="Point" if kind == "points" else "Polygon",
        crs="EPSG:4326",
    )
    return path


def _make_batches(kind: str, rows: int) -> "Iterator[pa.RecordBatch]":
    import numpy as np
    import pyarrow as pa
    import shapely

    random = np.random.default_rng(7)
    for start in range(0, rows, BATCH_ROWS):
        numbers = np.arange(start, min(start + BATCH_ROWS, rows))
        places = random.uniform((-179, -80), (179, 80), (len(numbers), 2))
        shapes = shapely.points(places) if kind == "points" else _draw_polygons(places)
        columns = {
            "number": pa.array(numbers),
            "size": pa.array(random.normal(size=len(numbers))),
            "name": pa.array(np.char.add("feature ", numbers.astype(str))),
            "seen": pa.array(random.integers(0, 2**31, len(numbers)) * 1000, pa.timestamp("ms", "UTC")),
            "valid": pa.array(random.random(len(numbers)) < 0.5),
            "geometry": pa.array(shapely.to_wkb(shapes)),
        }
        yield pa.record_batch(columns)


def _draw_polygons(places: "npt.NDArray[np.float64]") -> "npt.NDArray[np.object_]":
    import numpy as np
    import shapely

    angles = np.linspace(0, 2 * np.pi, SIDES, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)]) * 0.01
    found: npt.NDArray[np.object_] = shapely.polygons(places[:, None, :] + circle[None, :, :])
    return found


async def _publish(bench: Bench, file: Path) -> float:
    """The wall time of a job, from its submission to its end; the file is uploaded before."""
    platform = make_token()
    key = f"{platform}/{file.name}"
    await asyncio.to_thread(bench.storage.tier("bronze").upload, key, file)
    table = platform.replace("-", "_")
    parameters: JsonObject = {"source": f"bronze://{key}", "table": table, "collection": platform}
    return await bench.run(WORKFLOW, parameters, platform)


def _run_ogr2ogr(program: str, url: str, file: Path) -> float:
    target = conninfo_to_dict(url)
    target.pop("options", None)
    dsn = f"PG:{make_conninfo('', **target)}"
    options = [
        "-nln",
        f"ogr_{make_token()}".replace("-", "_"),
        "-lco",
        "GEOMETRY_NAME=geom",
        "-nlt",
        "PROMOTE_TO_MULTI",
    ]
    if file.name.startswith("points"):
        options = options[:-2]
    begun = time.monotonic()
    subprocess.run(
        [program, "-f", "PostgreSQL", dsn, str(file), *options, "--config", "PG_USE_COPY", "YES", "-gt", "1000000"],
        check=True,
        capture_output=True,
    )
    return time.monotonic() - begun
