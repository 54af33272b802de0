"""The error codes of the sandbox."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("resource.cpu", Kind.TASK_AGAIN, "Processing a file took more CPU time than allowed.", "Check whether the file is valid; raise the limit if it is."),
    Code("resource.disk", Kind.TASK_AGAIN, "The disk is full, or a file exceeded its size limit.", "Free disk space, or raise the limit."),
    Code("resource.memory", Kind.TASK_AGAIN, "Processing a file took more memory than allowed.", "Raise the memory limit, or send a smaller file."),
    Code("sandbox.answer", Kind.TASK, "The metadata of a file is too large, or the process that read it returned an invalid answer.", "Check whether the file is valid."),
    Code("sandbox.unavailable", Kind.TASK_AGAIN, "The process that opens files did not start, or died.", "See the worker's log; `anabranch doctor` checks the machine."),
)
# fmt: on
