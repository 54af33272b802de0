"""Seed 004, "Production Job Examples", "Task Dictionary Contract" and the stages of "Process Raster Workflow", as they
are printed. Mended: the imports, the mixins, the handlers, and StageDefinition(…) as a dict of the same keys."""
# It stands as it is printed, and has fewer types than we ask of ours.
# mypy: ignore-errors
# fmt: off
# ruff: noqa: C408

from anabranch import JobBase


class HelloWorldJob:
    job_type = "hello_world"
    stages = [
        {"number": 1, "name": "greeting", "task_type": "hello_world_greeting"},
        {"number": 2, "name": "reply", "task_type": "hello_world_reply"}
    ]


class RasterMixin:
    pass


class RasterWorkflowsBase:
    pass


class JobBaseMixin:
    pass


class ProcessRasterV2Job(RasterMixin, RasterWorkflowsBase, JobBaseMixin, JobBase):
    job_type = "process_raster_v2"
    stages = [
        {"number": 1, "name": "validate", "task_type": "validate_raster", "parallelism": "single"},
        {"number": 2, "name": "create_cog", "task_type": "create_cog", "parallelism": "single"},
        {"number": 3, "name": "create_stac", "task_type": "create_stac_raster", "parallelism": "single"}
    ]


class TaskContractJob:
    job_type = "task_contract"
    stages = [{"number": 1, "task_type": "hello_world_greeting"}]

    @staticmethod
    def create_tasks_for_stage(stage, job_params, job_id, previous_results=None):
        n = job_params.get('n', 3)
        return [
            {
                "task_id": f"{job_id[:8]}-s{stage}-{i}",  # Required
                "task_type": "hello_world_greeting",       # Required
                "parameters": {                            # Required
                    "index": i,
                    "message": job_params.get('message')
                },
                "metadata": {"batch": "morning"}           # Optional
            }
            for i in range(n)
        ]


class ProcessRasterWorkflow:
    job_type: str = "process_raster"
    total_stages: int = 4
    stages = [
        dict(
            stage_number=1,
            stage_name="validate",
            task_type="validate_raster",
            max_parallel_tasks=1
        ),
        dict(
            stage_number=2,
            stage_name="chunk",
            task_type="calculate_tiles",
            max_parallel_tasks=1
        ),
        dict(
            stage_number=3,
            stage_name="process",
            task_type="create_cog_tile",
            max_parallel_tasks=100,
            depends_on_stage=2
        ),
        dict(
            stage_number=4,
            stage_name="catalog",
            task_type="create_stac_record",
            max_parallel_tasks=1,
            depends_on_stage=3
        )
    ]


def echo(params: dict) -> dict:
    return params


ALL_JOBS = {
    job.job_type: job
    for job in (HelloWorldJob, ProcessRasterV2Job, TaskContractJob, ProcessRasterWorkflow)
}
ALL_HANDLERS = dict.fromkeys(
    (
        "hello_world_greeting", "hello_world_reply", "validate_raster", "create_cog",
        "create_stac_raster", "calculate_tiles", "create_cog_tile", "create_stac_record",
    ),
    echo,
)
