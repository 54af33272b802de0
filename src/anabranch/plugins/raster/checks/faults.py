"""Which errors are faults of the file that was read, and which of the machine or the store (E9)."""

from anabranch.engine.worker.context import Context
from anabranch.errors import AnabranchError

__all__ = ["is_fault_of_file"]

# Limits that a file exceeds on any worker; and the end of the process that read it, if it happens again.
FAULTS_OF_FILES = ("resource.memory", "resource.cpu")
CRASH = "handler.crashed"


def is_fault_of_file(error: AnabranchError, ctx: Context) -> bool:
    """Whether an error is reported with the file; any other fails the task, for trying again may help."""
    crashed_again = error.code == CRASH and ctx.attempt > 1
    return error.category == "permanent" or error.code in FAULTS_OF_FILES or crashed_again
