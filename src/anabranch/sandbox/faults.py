"""Which errors are faults of the file that was read, and which of the machine or the store (E9)."""

from collections.abc import Iterator, Sequence
from itertools import islice

from anabranch.engine.worker.context import Context
from anabranch.errors import AnabranchError
from anabranch.strict_model import StrictModel

__all__ = ["Failure", "is_fault_of_file", "list_some", "refuse_set"]

# Limits that a file exceeds on any worker; and the end of the process that read it, if it happens again.
FAULTS_OF_FILES = ("resource.memory", "resource.cpu")
CRASH = "handler.crashed"
MAX_NAMED = 20  # files in an error
MAX_MESSAGE_CHARS = 3_000


class Failure(StrictModel):
    """Why a file, or a whole set of files, can't be published."""

    code: str
    message: str
    remedy: str = ""

    @classmethod
    def of(cls, error: AnabranchError) -> "Failure":
        """What an error says."""
        return cls(code=error.code, message=error.message, remedy=error.remedy)


def is_fault_of_file(error: AnabranchError, ctx: Context) -> bool:
    """Whether an error is reported with the file; any other fails the task, for trying again may help."""
    crashed_again = error.code == CRASH and ctx.attempt > 1
    return error.category == "permanent" or error.code in FAULTS_OF_FILES or crashed_again


def refuse_set(failed: Sequence[tuple[str, Failure]], count: int, *, code: str) -> Failure:
    """Why none of so many files is published: what is wrong with those that failed, by their addresses."""
    named = (f"{source}: {failure.message} [{failure.code}]" for source, failure in failed)
    remedies = dict.fromkeys(failure.remedy for _, failure in failed[:MAX_NAMED])
    return Failure(
        code=code,
        message=f"{len(failed)} of {count} files can't be published, so that none is: {list_some(named, len(failed))}",
        remedy=f"Fix these files, or leave them out. {' '.join(remedies)}"[:MAX_MESSAGE_CHARS].strip(),
    )


def list_some(named: Iterator[str], count: int) -> str:
    """The first of them, as far as an error has room."""
    shown: list[str] = []
    for text in islice(named, MAX_NAMED):
        if shown and sum(map(len, shown)) + len(text) > MAX_MESSAGE_CHARS:
            break
        shown.append(text[:MAX_MESSAGE_CHARS])
    more = f"; and {count - len(shown)} more, which the report lists" if len(shown) < count else ""
    return "; ".join(shown) + more
