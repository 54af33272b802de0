"""Requests as values, and operations of several requests that both clients run."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from anabranch.client.files import FileBody

__all__ = ["Call", "Parameter", "Pause", "Step", "Steps"]

Answer = TypeVar("Answer")
Parameter = str | int | Sequence[str] | None


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A request, and how its answer is read.

    `also` is an error status that counts as an answer; `within` limits the client's own timeout, in seconds, and a
    `slow` answer may take longer. `key` is an idempotency key. With `lines`, body and answer are JSON lines.
    """

    read: Callable[[Any], Answer]  # of JSON, which has no type before it is read
    method: str
    path: str
    body: bytes | FileBody | None = None
    query: Mapping[str, Parameter] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    also: int | None = None
    within: float | None = None
    slow: bool = False
    key: str | None = None
    lines: bool = False


@dataclass(frozen=True)
class Pause:
    """A pause between two calls, in seconds."""

    seconds: float


Step = Call[Any] | Pause
# An operation: a generator that receives the answer to each call, or its error as an exception.
Steps = Generator[Step, Any, Answer]
