"""Seed 002, "The entire job definition", as printed. Mended: the imports."""
# It stands as it is printed, and has fewer types than we ask of ours.
# mypy: ignore-errors
# fmt: off
# ruff: noqa: RET503, RET505

from anabranch import JobDeclaration, TaskContext, register_handler, register_job


@register_job
class HelloWorldJob(JobDeclaration):
    """Pure declaration - WHAT this job does, not HOW"""

    JOB_TYPE = "hello_world"
    BATCH_THRESHOLD = 50

    STAGES = [
        {
            "number": 1,
            "name": "greeting",
            "task_type": "hello_world_greeting",
            "parallelism": "dynamic",
            "count_param": "n"
        },
        {
            "number": 2,
            "name": "reply",
            "task_type": "hello_world_reply",
            "parallelism": "match_previous",
            "uses_lineage": True
        }
    ]

    PARAMETERS = {
        "n": {"type": "int", "min": 1, "max": 1000, "default": 3},
        "message": {"type": "str", "default": "Hello World"}
    }

    def create_tasks_for_stage(self, stage: int, params: dict):
        """ONLY custom logic needed"""
        n = params['n']
        if stage == 1:
            return [{"index": i, "message": params['message']} for i in range(n)]
        elif stage == 2:
            return [{"index": i} for i in range(n)]

# Business logic handlers (separate file)
@register_handler("hello_world_greeting")
def handle_greeting(params: dict) -> dict:
    return {"greeting": f"Hello from task {params['index']}"}

@register_handler("hello_world_reply")
def handle_reply(params: dict, context: TaskContext) -> dict:
    predecessor = context.get_predecessor_result()
    return {"reply": f"Replying to: {predecessor['greeting']}"}
