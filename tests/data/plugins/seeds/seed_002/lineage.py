"""Seed 002, "Task Lineage Access", as printed. Mended: the imports, process_tile, and a job to run it."""
# It stands as it is printed, and has fewer types than we ask of ours.
# mypy: ignore-errors
# fmt: off
# ruff: noqa: RET504

from anabranch import TaskContext, register_handler, register_job


def process_tile(bounds: list) -> dict:
    return {"width": bounds[2] - bounds[0]}


# In task handler
@register_handler("process_tile")
def handle_tile(params: dict, context: TaskContext) -> dict:
    # Automatic access to predecessor (same index, previous stage)
    if context.has_predecessor():
        metadata = context.get_predecessor_result()
        tile_bounds = metadata['tile_bounds']

    # Process tile with bounds from previous stage
    result = process_tile(tile_bounds)
    return result


@register_handler("bound_tile")
def bound_tile(params: dict) -> dict:
    x = params["index"]
    return {"tile_bounds": [x, 0, x + 10, 10]}


@register_job
class Tiles:
    job_type = "tiles"
    stages = [
        {"number": 1, "task_type": "bound_tile", "parallelism": "fixed", "count": 2},
        {"number": 2, "task_type": "process_tile", "parallelism": "match_previous", "uses_lineage": True},
    ]
