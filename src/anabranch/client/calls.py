"""Operations as values: each is written once and run by both clients."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from anabranch.client.answers import Page
from anabranch.client.files import FileBody
from anabranch.errors import AnabranchError

__all__ = ["Batches", "Call", "Operation", "Pages", "Pause", "Run", "Step", "Steps"]

Answer = TypeVar("Answer")
Item = TypeVar("Item")


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A request, and how its answer is read.

    The body may be a file, and the answer may be written to one. `also` is an error status that counts as an answer;
    `within` limits the client's own timeout, in seconds, and a `slow` answer may take longer. `key` is an idempotency
    key. With `lines`, body and answer are JSON lines.
    """

    read: Callable[[Any], Answer]  # of JSON, which has no type before it is read; of a file, its path
    method: str
    path: str
    body: bytes | FileBody | None = None
    query: dict[str, str | int | None] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    also: int | None = None
    within: float | None = None
    slow: bool = False
    into: Path | None = None
    key: str | None = None
    lines: bool = False


@dataclass(frozen=True)
class Pause:
    """A pause between two calls, in seconds."""

    seconds: float


Step = Call[Any] | Pause
# A generator that receives the answer to each call, or its error as an exception.
Steps = Generator[Step, Any, Answer]
Operation = Call[Answer] | Steps[Answer]
# Consecutive operations, each with a part of the items.
Batches = Iterator[Operation[Sequence[Item]]]
# The call for the page after a cursor.
Pages = Callable[[str | None], Call[Page[Item]]]


class Run(Generic[Answer]):
    """A running operation: its next step, and after the last step its answer."""

    def __init__(self, operation: Operation[Answer]) -> None:
        """Advances to the first step."""
        self._steps = _once(operation) if isinstance(operation, Call) else operation
        self._answers: list[Answer] = []
        self.step = self._advance(lambda: next(self._steps))

    @property
    def answer(self) -> Answer:
        """The answer, once there is no next step."""
        return self._answers[0]

    def resume(self, answer: Any = None) -> None:  # as the step's call reads it
        """Continue after a successful step."""
        self.step = self._advance(lambda: self._steps.send(answer))

    def fail(self, error: AnabranchError) -> None:
        """Continue after a failed step; the error is raised unless the operation handles it."""
        self.step = self._advance(lambda: self._steps.throw(error))

    def _advance(self, move: Callable[[], Step]) -> Step | None:
        try:
            return move()
        except StopIteration as ended:
            self._answers.append(ended.value)
            return None


def _once(call: Call[Answer]) -> Steps[Answer]:
    answer: Answer = yield call
    return answer
