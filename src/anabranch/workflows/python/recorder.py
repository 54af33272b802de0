"""The trace that runs now, as symbols see it: it keeps the expressions that f-strings put into text."""

from contextvars import ContextVar
from itertools import count
from typing import Literal, overload

from anabranch.workflows.expressions.syntax import Expression
from anabranch.workflows.python.places import mistake_here

__all__ = ["CURRENT", "MARK", "Recorder", "recording"]

MARK = "\0"  # around the number of an expression in a text: no text of a definition can hold it
_SERIAL = count()


class Recorder:
    """Keeps expressions by number."""

    def __init__(self) -> None:
        self._serial = next(_SERIAL)
        self._kept: list[Expression] = []

    def keep(self, expression: Expression) -> str:
        """What stands for an expression in a text."""
        self._kept.append(expression)
        return f"{MARK}{self._serial}:{len(self._kept) - 1}{MARK}"

    def kept(self, number: str) -> Expression:
        """The expression that a text has between two marks."""
        serial, _, position = number.partition(":")
        if serial != str(self._serial):
            raise mistake_here("this text has a value of another workflow function in it", "Format it here.")
        return self._kept[int(position)]


CURRENT: ContextVar[Recorder | None] = ContextVar("anabranch_trace", default=None)


@overload
def recording(*, needed: Literal[True]) -> Recorder: ...
@overload
def recording(*, needed: bool = False) -> Recorder | None: ...
def recording(*, needed: bool = False) -> Recorder | None:
    """The trace that runs now."""
    found = CURRENT.get()
    if found is None and needed:
        raise mistake_here("this is possible only inside a function with @workflow", "Call it there.")
    return found
