"""Cut a box of longitudes and latitudes into cells, measure each cell, and write them as GeoJSON."""

import json
import math
from typing import Any

from pydantic import BaseModel, Field

from anabranch import Context, Job, TaskSpec, handler, register_job

EARTH_RADIUS_KM = 6371.0088


class Grid(BaseModel):
    """The parameters of a job: a box in degrees, and how many cells it has."""

    west: float = Field(-180, ge=-180, le=180)
    south: float = Field(-90, ge=-90, le=90)
    east: float = Field(180, ge=-180, le=180)
    north: float = Field(90, ge=-90, le=90)
    columns: int = Field(4, ge=1, le=360)
    rows: int = Field(2, ge=1, le=180)


@register_job
class CellAreas(Job):
    """The area of each cell of a grid, and of all of them."""

    job_type = "cell_areas"
    parameters_schema = Grid
    stages = [
        {"number": 1, "name": "measure", "task_type": "cells.measure", "parallelism": "dynamic"},
        {"number": 2, "name": "write", "task_type": "cells.write", "parallelism": "fan_in"},
    ]

    @staticmethod
    def create_tasks_for_stage(stage: int, params: Grid) -> list[TaskSpec]:
        """A task for each cell."""
        width = (params.east - params.west) / params.columns
        height = (params.north - params.south) / params.rows
        return [
            TaskSpec(
                index=f"x{x}-y{y}",
                parameters={
                    "west": params.west + x * width,
                    "south": params.south + y * height,
                    "east": params.west + (x + 1) * width,
                    "north": params.south + (y + 1) * height,
                },
            )
            for x in range(params.columns)
            for y in range(params.rows)
        ]


@handler("cells.measure", quick=True)
def measure(west: float, south: float, east: float, north: float) -> dict[str, Any]:
    """A cell as a GeoJSON feature with its area on a sphere."""
    heights = math.sin(math.radians(north)) - math.sin(math.radians(south))
    area = EARTH_RADIUS_KM**2 * math.radians(east - west) * heights
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {"area_km2": area},
    }


@handler("cells.write")
def write(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Store all cells in one file."""
    cells = [task["result"] for task in params["previous_results"]]
    path = ctx.scratch / "cells.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": cells}))
    stored = ctx.storage.put(path, tier="gold", media_type="application/geo+json")
    return {"cells": stored.address, "area_km2": round(sum(cell["properties"]["area_km2"] for cell in cells))}
