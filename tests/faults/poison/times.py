"""A declaration with times that no clock can hold."""

from typing import ClassVar

from anabranch import Job, register_job


@register_job
class Times(Job):
    """Timeouts and delays far beyond what a timestamp can be."""

    job_type = "poison_times"
    stages: ClassVar = [
        {
            "number": 1, "name": "fail", "task_type": "poison.plain", "timeout_seconds": 1e12,
            "total_timeout_seconds": 1e13, "queue_timeout_seconds": 1e13,
            "retry": {"max_attempts": 2**40, "initial_delay_seconds": 0, "max_delay_seconds": 1e13},
        }
    ]  # fmt: skip
