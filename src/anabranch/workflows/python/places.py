"""Where in the code of a workflow function something is written."""

import sys
from types import FrameType
from typing import NamedTuple

from anabranch.errors import DefinitionError
from anabranch.workflows.yaml.tree import FileMistake

__all__ = ["Place", "TraceError", "find_place", "mistake_here", "place_of_error"]

_OWN = __name__.rpartition(".")[0]


class Place(NamedTuple):
    """A place in a Python file; the first line and the first column are 1."""

    file: str
    line: int
    column: int = 1


class TraceError(DefinitionError):
    """What a workflow function can't do, and where it tries to."""

    def __init__(self, message: str, hint: str, place: Place) -> None:
        self.mistake = FileMistake(*place, message, hint)
        super().__init__("workflow.invalid", str(self.mistake))


def mistake_here(message: str, hint: str = "") -> TraceError:
    """The error to raise about what the caller's code does."""
    return TraceError(message, hint, find_place())


def find_place() -> Place:
    """Where the code is that called into this package."""
    frame = sys._getframe()  # the line of a call is nowhere else
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    return _place(frame, frame.f_lasti)


def place_of_error(error: BaseException, file: str) -> Place | None:
    """Where in a file an exception came from, by the innermost of its calls that are there."""
    found, at = None, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == file:
            found = _place(at.tb_frame, at.tb_lasti)
        at = at.tb_next
    return found


def _place(frame: FrameType, instruction: int) -> Place:
    line, _, column, _ = list(frame.f_code.co_positions())[instruction // 2]
    return Place(frame.f_code.co_filename, line or frame.f_code.co_firstlineno, (column or 0) + 1)
