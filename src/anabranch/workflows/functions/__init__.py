"""Workflows as typed Python functions, traced once into the definition that a file would be."""

from anabranch.workflows.functions import expr
from anabranch.workflows.functions.calls import HandlerFunction, choose, end, fan_in, gate, task, wait, workflow_named
from anabranch.workflows.functions.declaration import WorkflowFunction, functions_in, workflow
from anabranch.workflows.functions.symbols import item

__all__ = [
    "HandlerFunction",
    "WorkflowFunction",
    "choose",
    "end",
    "expr",
    "fan_in",
    "functions_in",
    "gate",
    "item",
    "task",
    "wait",
    "workflow",
    "workflow_named",
]
