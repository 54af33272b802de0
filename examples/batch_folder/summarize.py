"""Summarize the readings of a river gauge."""

import csv
from statistics import fmean
from typing import Any

from anabranch import Context, Permanent, handler, workflow


@handler("gauges.summarize")
def summarize(source: str, ctx: Context) -> dict[str, Any]:
    """The position of a gauge and its lowest, mean and highest level, as a GeoJSON feature."""
    with ctx.storage.fetch(source).open(newline="") as file:
        rows = list(csv.DictReader(file))
    levels = [_read_level(row, line) for line, row in enumerate(rows, 2)]
    properties = {"lowest": min(levels), "mean": round(fmean(levels), 2), "highest": max(levels)}
    position = [float(rows[0]["lon"]), float(rows[0]["lat"])]
    return {"type": "Feature", "geometry": {"type": "Point", "coordinates": position}, "properties": properties}


def _read_level(row: dict[str, str], line: int) -> float:
    try:
        return float(row["level_m"])
    except ValueError:
        raise Permanent(f"line {line}: the level {row['level_m']!r} is no number") from None


@workflow
def summarize_gauge(source: str) -> Any:
    """Summarize one file of readings."""
    return summarize(source=source)
