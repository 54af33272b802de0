"""Anabranch: raw geospatial files in; published, cataloged, servable data out."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.engine.model import Checkpoint
    from anabranch.engine.worker.geo_library import PublishedTable
    from anabranch.engine.worker.handler import (
        Context,
        HandlerContext,
        HandlerResult,
        TaskContext,
        handler,
        register_handler,
    )
    from anabranch.errors import (
        AnabranchError,
        BusinessLogicError,
        Conflict,
        ContractViolationError,
        DatabaseError,
        DefinitionError,
        InputError,
        Interrupted,
        NotFound,
        Permanent,
        Resource,
        ResourceNotFoundError,
        ServiceBusError,
        TaskError,
        TaskExecutionError,
        Throttled,
        Transient,
        Unavailable,
        ValidationError,
    )
    from anabranch.workflows.inputs import Input
    from anabranch.workflows.python import choose, end, expr, fan_in, gate, item, task, wait, workflow, workflow_named
    from anabranch.workflows.stages import Job, JobBase, JobDeclaration, TaskSpec, register_job
    from anabranch.workflows.work import Breaker, Retry

__all__ = [
    "AnabranchError",
    "Breaker",
    "BusinessLogicError",
    "Checkpoint",
    "Conflict",
    "Context",
    "ContractViolationError",
    "DatabaseError",
    "DefinitionError",
    "HandlerContext",
    "HandlerResult",
    "Input",
    "InputError",
    "Interrupted",
    "Job",
    "JobBase",
    "JobDeclaration",
    "NotFound",
    "Permanent",
    "PublishedTable",
    "Resource",
    "ResourceNotFoundError",
    "Retry",
    "ServiceBusError",
    "TaskContext",
    "TaskError",
    "TaskExecutionError",
    "TaskSpec",
    "Throttled",
    "Transient",
    "Unavailable",
    "ValidationError",
    "choose",
    "end",
    "expr",
    "fan_in",
    "gate",
    "handler",
    "item",
    "register_handler",
    "register_job",
    "task",
    "wait",
    "workflow",
    "workflow_named",
]

_HOMES = (
    "anabranch.errors",
    "anabranch.workflows.stages",
    "anabranch.engine.worker.handler",
    "anabranch.engine.model",
    "anabranch.engine.worker.geo_library",
    "anabranch.workflows.work",
    "anabranch.workflows.python",
    "anabranch.workflows.inputs",
)


def __getattr__(name: str) -> object:
    """Import what is exported only when it is asked for: the command line must start fast."""
    if name in __all__:
        for home in _HOMES:
            if hasattr(module := import_module(home), name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
