"""Greet n times, then reply to every greeting by lineage."""

from typing import Any, ClassVar

from anabranch import Job, TaskContext, TaskSpec, register_handler, register_job


@register_job
class HelloWorld(Job):
    """Greet n times, then reply to every greeting."""

    job_type = "hello_world"
    parameters_schema: ClassVar = {
        "n": {"type": "int", "min": 1, "max": 1000, "default": 3},
        "message": {"type": "str", "default": "Hello World"},
    }
    stages: ClassVar = [
        {"number": 1, "name": "greeting", "task_type": "hello_world_greeting", "parallelism": "dynamic"},
        {
            "number": 2,
            "name": "reply",
            "task_type": "hello_world_reply",
            "parallelism": "match_previous",
            "uses_lineage": True,
        },
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        """The greetings carry the message; the replies find theirs by lineage."""
        message = {"message": params["message"]} if stage == 1 else {}
        return [TaskSpec(index=i, parameters={"index": i, **message}) for i in range(params["n"])]


@register_handler("hello_world_greeting")
def greet(params: dict[str, Any]) -> dict[str, str]:
    """One greeting."""
    return {"greeting": f"{params['message']} from task {params['index']}"}


@register_handler("hello_world_reply")
def reply(params: dict[str, Any], context: TaskContext) -> dict[str, str]:
    """The reply to the greeting of the same index."""
    return {"reply": f"Replying to: {context.get_predecessor_result()['greeting']}"}
