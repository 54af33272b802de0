"""Workflows as typed Python functions, traced once into the definition that a file would be."""

from anabranch.workflows.python import expr
from anabranch.workflows.python.calls import HandlerFunction, choose, end, fan_in, gate, task, wait, workflow_named
from anabranch.workflows.python.declaration import WorkflowFunction, functions_in, workflow
from anabranch.workflows.python.symbols import item

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
