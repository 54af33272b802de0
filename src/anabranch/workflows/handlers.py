"""What a workflow knows of the handlers that its nodes call."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from anabranch.workflows.work import DEFAULT_QUEUE, DEFAULT_TIMEOUT, Retry

__all__ = ["Handler", "Runs"]


class Runs(StrEnum):
    """Where a handler runs."""

    IN_LOOP = "in the worker's loop"
    QUICKLY = "in the worker's thread for short ones"
    IN_CHILD = "in a child that is kept"
    HEAVILY = "in a fresh child with limits"


@dataclass(frozen=True)
class Handler:
    """A function that tasks call, under the name that workflows use."""

    name: str
    function: Callable[..., Any]  # called with what `arguments` names
    arguments: tuple[str, ...]
    model: type[BaseModel] | None
    queue: str = DEFAULT_QUEUE
    timeout: timedelta = DEFAULT_TIMEOUT
    retry: Retry = field(default_factory=Retry)
    runs: Runs = Runs.IN_CHILD
    summary: str = ""
    result: type[BaseModel] | None = None
