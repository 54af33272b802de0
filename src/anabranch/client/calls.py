"""What the clients do, as values: each is written once, and carried out by both."""

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
    """A request, and what is made of its answer.

    The body may be a file, and the answer may go to one. `also` is a status that is an answer, too; `within` bounds the
    client's own timeout, in seconds, and a `slow` answer may take longer than that. `key` makes it safe to repeat. With
    `lines`, body and answer are many values, a line each.
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
    """A rest of some seconds between two calls."""

    seconds: float


Step = Call[Any] | Pause
# A procedure: it is sent the answer to each call, or thrown its error.
Steps = Generator[Step, Any, Answer]
Operation = Call[Answer] | Steps[Answer]
# One operation after another, each with some of the items.
Batches = Iterator[Operation[Sequence[Item]]]
# The call for the page after a cursor.
Pages = Callable[[str | None], Call[Page[Item]]]


class Run(Generic[Answer]):
    """An operation under way: its next step, and when there is none any more, its answer."""

    def __init__(self, operation: Operation[Answer]) -> None:
        """Before the first step."""
        self._steps = _once(operation) if isinstance(operation, Call) else operation
        self._answers: list[Answer] = []
        self.step = self._advance(lambda: next(self._steps))

    @property
    def answer(self) -> Answer:
        """What the last step led to."""
        return self._answers[0]

    def resume(self, answer: Any = None) -> None:  # as the step's call reads it
        """After a step that was taken."""
        self.step = self._advance(lambda: self._steps.send(answer))

    def fail(self, error: AnabranchError) -> None:
        """After a step that failed; the operation may know what to do, else the error is raised."""
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
