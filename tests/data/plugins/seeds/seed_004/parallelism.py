"""Seed 004, "Parallelism Patterns", as printed. Mended: the imports, a class around each pair of stages and planner,
what is printed as `...`, calculate_tile_grid, and the handlers."""
# It stands as it is printed, and has fewer types than we ask of ours.
# mypy: ignore-errors
# fmt: off
# ruff: noqa: RET503, RET505

from collections import namedtuple

from anabranch import Job, register_job

Tile = namedtuple("Tile", "x y coords")


def calculate_tile_grid(bbox: list, tile_size: int) -> list:
    columns, rows = (bbox[2] - bbox[0]) // tile_size, (bbox[3] - bbox[1]) // tile_size
    return [Tile(x, y, [x * tile_size, y * tile_size]) for y in range(rows) for x in range(columns)]


@register_job
class NFromParameters(Job):
    job_type = "n_from_parameters"
    # Example A: N from job parameters
    stages = [
        {"number": 1, "task_type": "process_item", "parallelism": "single"}
    ]

    @staticmethod
    def create_tasks_for_stage(stage, job_params, job_id, previous_results=None):
        if stage == 1:
            n = job_params.get('n', 10)  # ← N from request parameters
            return [
                {"task_id": f"{job_id[:8]}-s1-{i}", "parameters": {"i": i}}
                for i in range(n)  # Create N tasks (N = 10)
            ]


@register_job
class Hardcoded(Job):
    job_type = "hardcoded"
    stages = [{"number": 1, "task_type": "analyze_raster"}]

    # Example B: Hardcoded (always 1 task)
    @staticmethod
    def create_tasks_for_stage(stage, job_params, job_id, previous_results=None):
        if stage == 1:
            return [{  # ← Always create exactly 1 task
                "task_id": f"{job_id[:8]}-s1-analyze",
                "task_type": "analyze_raster",
                "parameters": {"raster": job_params["raster"]}
            }]


@register_job
class TileGrid(Job):
    job_type = "tile_grid"
    # Stage 1: Calculate tile grid from bounding box
    stages = [
        {"number": 1, "task_type": "generate_tiles", "parallelism": "single"}
    ]

    @staticmethod
    def create_tasks_for_stage(stage, job_params, job_id, previous_results=None):
        if stage == 1:
            # Calculate tile grid at orchestration time (BEFORE execution)
            bbox = job_params["bounding_box"]
            tile_size = job_params.get("tile_size_km", 10)

            # Determine N tiles from bbox geometry
            tiles = calculate_tile_grid(bbox, tile_size)  # Returns 100 tiles

            # Create 100 tasks immediately (orchestration-time)
            return [
                {
                    "task_id": f"{job_id[:8]}-s1-tile-{tile.x}-{tile.y}",
                    "task_type": "process_tile",
                    "parameters": {"tile": tile.coords}
                }
                for tile in tiles
            ]


@register_job
class FileList(Job):
    job_type = "file_list"
    stages = [
        {"number": 1, "task_type": "list_files", "parallelism": "single"},
        {"number": 2, "task_type": "process_file", "parallelism": "fan_out"}  # ← Fan-out
    ]

    @staticmethod
    def create_tasks_for_stage(stage, job_params, job_id, previous_results=None):
        if stage == 1:
            # Stage 1: Create 1 task to LIST files (don't know N yet)
            return [{
                "task_id": f"{job_id[:8]}-s1-list",
                "task_type": "list_container_files",
                "parameters": {"container": job_params["container"]}
            }]

        elif stage == 2:
            # Stage 2: Fan-out - Create tasks FROM Stage 1 execution results
            if not previous_results:
                raise ValueError("Stage 2 requires Stage 1 results")

            # Extract file list from Stage 1 task result (runtime discovery!)
            file_list = previous_results[0]['result']['files']  # ← N discovered HERE

            # Create one task per file (N = len(file_list))
            return [
                {
                    "task_id": f"{job_id[:8]}-s2-{file_name}",
                    "task_type": "process_file",
                    "parameters": {"file_name": file_name}
                }
                for file_name in file_list
            ]


@register_job
class RasterTiling(Job):
    job_type = "raster_tiling"
    # Stage 1: Analyze raster → determine if tiling needed
    # Stage 2: Process tiles (N determined by Stage 1 analysis)

    stages = [
        {"number": 1, "task_type": "analyze_raster", "parallelism": "single"},
        {"number": 2, "task_type": "process_tile", "parallelism": "fan_out"}
    ]

    @staticmethod
    def create_tasks_for_stage(stage, job_params, job_id, previous_results=None):
        if stage == 1:
            # Stage 1: One task analyzes raster and determines tiling strategy
            return [{
                "task_id": f"{job_id[:8]}-s1-analyze",
                "task_type": "analyze_raster_size",
                "parameters": {"raster_path": job_params["raster"]}
            }]
            # Task execution outputs: {"tiles": [{"x": 0, "y": 0}, ...]}  ← 100 tiles

        elif stage == 2:
            # Stage 2: Fan-out based on Stage 1 analysis results
            tile_plan = previous_results[0]['result']['tiles']  # ← N = 100 discovered

            return [
                {
                    "task_id": f"{job_id[:8]}-s2-tile-{tile['x']}-{tile['y']}",
                    "task_type": "process_tile",
                    "parameters": {"tile": tile, "raster": job_params["raster"]}
                }
                for tile in tile_plan
            ]


@register_job
class Diamond(Job):
    job_type = "diamond"
    stages = [
        {"number": 1, "task_type": "list_files", "parallelism": "single"},
        {"number": 2, "task_type": "process_file", "parallelism": "fan_out"},
        {"number": 3, "task_type": "aggregate_results", "parallelism": "fan_in"},  # ← AUTO
        {"number": 4, "task_type": "update_catalog", "parallelism": "single"}
    ]

    @staticmethod
    def create_tasks_for_stage(stage, job_params, job_id, previous_results=None):
        if stage == 1:
            return [{"task_id": f"{job_id[:8]}-s1-list", "task_type": "list_files", "parameters": {}}]

        elif stage == 2:
            files = previous_results[0]['result']['files']
            return [
                {"task_id": f"{job_id[:8]}-s2-{f}", "task_type": "process_file", "parameters": {"file_name": f}}
                for f in files
            ]

        elif stage == 3:
            # FAN-IN: Job does NOTHING - CoreMachine handles it
            # DO NOT implement this case - return [] or raise NotImplementedError
            return []  # CoreMachine creates aggregation task automatically

        elif stage == 4:
            # Stage 4 receives aggregated result from Stage 3
            summary = previous_results[0]['result']['summary']
            return [{"task_id": f"{job_id[:8]}-s4-0", "parameters": {"summary": summary}}]


class AggregateResultsHandler:
    def execute(self, params: dict) -> dict:
        # Receive ALL Stage 2 results (automatically provided by CoreMachine)
        previous_results = params["previous_results"]  # List of N results

        # Aggregate
        total_files = len(previous_results)
        total_size = sum(r['result']['file_size'] for r in previous_results)

        return {
            "success": True,
            "result": {
                "summary": {
                    "total_files": total_files,
                    "total_size_mb": total_size / 1024 / 1024
                }
            }
        }


def echo(params: dict) -> dict:
    return params


def list_files(params: dict) -> dict:
    return {"success": True, "result": {"files": ["a.tif", "b-1.tif", "c d.tif"]}}


def process_file(params: dict) -> dict:
    return {"file_name": params["file_name"], "file_size": 2**20}


def analyze_raster_size(params: dict) -> dict:
    return {"tiles": [{"x": x, "y": y} for y in range(2) for x in range(2)]}


ALL_HANDLERS = {
    **dict.fromkeys(("process_item", "analyze_raster", "generate_tiles", "process_tile", "update_catalog"), echo),
    **dict.fromkeys(("list_files", "list_container_files"), list_files),
    "process_file": process_file,
    "analyze_raster_size": analyze_raster_size,
    "aggregate_results": AggregateResultsHandler,
}
