"""Seed 004, "Job Structure", as printed. Mended: the imports, a bracket too many after parameters_schema, the names
count and value, which nothing defines, the body of validate_job_parameters, which is left open, the handler."""
# It stands as it is printed, and has fewer types than we ask of ours.
# mypy: ignore-errors
# fmt: off
# ruff: noqa: I001, UP006, UP035, RUF013, F841

from typing import Any, Dict, List

from anabranch import JobBase


class YourJobClass(JobBase):  # ← Inherits from JobBase ABC
    """
    Job declaration - pure data + task creation logic.

    This is a blueprint, not a controller. CoreMachine orchestrates everything.

    Inherits from JobBase ABC which enforces the 5 required methods at class
    definition time (Python's ABC mechanism).
    """

    # Job metadata
    job_type: str = "your_job"
    description: str = "What this job does"

    # Stage definitions (plain dicts - NOT Pydantic Stage objects)
    stages: List[Dict[str, Any]] = [
        {
            "number": 1,
            "name": "stage_name",
            "task_type": "handler_name",
            "parallelism": "fixed",  # or "dynamic", "match_previous"
            "count": 1  # if fixed parallelism
        }
    ]

    # Parameter schema (optional but recommended)
    parameters_schema: Dict[str, Any] = {
        "param1": {"type": "str", "required": True},
        "param2": {"type": "int", "default": 10}
    }

    @staticmethod
    def create_tasks_for_stage(
        stage: int,
        job_params: dict,
        job_id: str,
        previous_results: list = None
    ) -> List[dict]:
        """
        Generate task parameters for a stage.

        This is the ONLY job-specific logic needed.
        Returns plain dicts - CoreMachine converts to TaskDefinition.

        Args:
            stage: Stage number (1-based)
            job_params: Job parameters from submission
            job_id: Unique job identifier
            previous_results: Results from previous stage (for fan-out patterns)

        Returns:
            List of plain dicts with task_id, task_type, parameters
        """
        count, value = job_params["param2"], job_params["param1"]
        return [
            {
                "task_id": f"{job_id[:8]}-task-{i}",
                "task_type": "handler_name",
                "parameters": {"param": value}
            }
            for i in range(count)
        ]

    @staticmethod
    def validate_job_parameters(params: dict) -> dict:
        """
        Validate and normalize parameters.

        REQUIRED by JobBase ABC - must be implemented.

        Args:
            params: Raw parameters from job submission

        Returns:
            Validated parameters with defaults applied

        Raises:
            ValueError: If parameters are invalid
        """
        validated = {}
        # Add validation logic
        if not params["param1"]:
            raise ValueError("param1 must not be empty")
        validated["param1"] = params["param1"].strip()
        validated["param2"] = params["param2"]
        return validated

    @staticmethod
    def generate_job_id(params: dict) -> str:
        """
        Generate deterministic job ID for idempotency.

        REQUIRED by JobBase ABC - must be implemented.

        Args:
            params: Job parameters

        Returns:
            Deterministic job ID string (typically SHA256 hash)
        """
        import hashlib
        import json
        return hashlib.sha256(
            json.dumps(params, sort_keys=True).encode()
        ).hexdigest()

    @staticmethod
    def create_job_record(job_id: str, params: dict) -> dict:
        """
        Create job record for database storage.

        REQUIRED by JobBase ABC - must be implemented.

        Args:
            job_id: Generated job ID
            params: Validated parameters

        Returns:
            Job record dict (typically {"job_id": ..., "status": ...})
        """
        from infrastructure import RepositoryFactory
        from core.models import JobRecord, JobStatus

        job_record = JobRecord(
            job_id=job_id,
            job_type="your_job",
            parameters=params,
            status=JobStatus.QUEUED,
            stage=1,
            total_stages=len(YourJobClass.stages),
            stage_results={},
            metadata={"description": YourJobClass.description}
        )

        repos = RepositoryFactory.create_repositories()
        repos['job_repo'].create_job(job_record)

        return {"job_id": job_id, "status": "queued"}

    @staticmethod
    def queue_job(job_id: str, params: dict) -> dict:
        """
        Queue job for processing using Service Bus.

        REQUIRED by JobBase ABC - must be implemented.

        Args:
            job_id: Job ID
            params: Validated parameters

        Returns:
            Queue result information
        """
        from infrastructure.service_bus import ServiceBusRepository
        from core.schema.queue import JobQueueMessage
        from config import get_config
        import uuid

        config = get_config()
        service_bus = ServiceBusRepository(
            connection_string=config.get_service_bus_connection(),
            queue_name=config.jobs_queue_name
        )

        message = JobQueueMessage(
            job_id=job_id,
            job_type="your_job",
            stage=1,
            parameters=params,
            message_id=str(uuid.uuid4()),
            correlation_id=str(uuid.uuid4())
        )

        result = service_bus.send_message(message.model_dump_json())

        return {
            "queued": True,
            "queue_type": "service_bus",
            "message_id": message.message_id
        }


def handler_name(params: dict) -> dict:
    return {"param": params["param"]}


ALL_JOBS = {
    "your_job": YourJobClass,
    # ... other jobs ...
}
ALL_HANDLERS = {"handler_name": handler_name}
