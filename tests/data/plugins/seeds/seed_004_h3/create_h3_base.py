"""Seed 004, "Production Job Examples": create_h3_base as it is printed, on the handler of the h3 plugin."""
# It stands as it is printed, and has fewer types than we ask of ours.
# mypy: ignore-errors


class CreateH3BaseJob:
    job_type = "create_h3_base"
    stages = [{"number": 1, "name": "generate", "task_type": "h3_base_generate"}]


ALL_JOBS = {"create_h3_base": CreateH3BaseJob}
