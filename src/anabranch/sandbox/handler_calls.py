"""Calls in a sandbox for handlers: one sandbox for each process and module, which has imported its libraries."""

import atexit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from anabranch.engine.worker.context import Context
from anabranch.sandbox.client import Receive, Sandbox
from anabranch.sandbox.confine import Limits
from anabranch.storage.ranged_object import Ranges

__all__ = ["HandlerSandbox", "WorkLimits", "sandbox_folder"]

# Address space for threads, arenas and libraries, besides the memory limit of the work.
OVERHEAD_BYTES = 1 << 30
MB = 2**20
PEAK = "sandbox_peak_mb"


@dataclass(frozen=True)
class WorkLimits:
    """Limits of one call, as settings give them."""

    memory_mb: int
    cpu_seconds: int
    file_mb: int


class HandlerSandbox:
    """Calls functions of a module; `make_environment` takes the memory limit in MB."""

    def __init__(self, module: str, make_environment: Callable[[int], Mapping[str, str]]) -> None:
        """Nothing is started yet."""
        self._module = module
        self._make_environment = make_environment
        self._sandboxes: dict[int, Sandbox] = {}

    def run(
        self, ctx: Context, name: str, limits: WorkLimits, receive: Receive | None = None, /, **arguments: object
    ) -> Any:  # its result, as JSON
        """Call a function by name: it can read the files it is given, and write below `sandbox_folder`.

        With `receive` the function has an argument `send`, and `receive` gets what it sends while it runs. The metric
        `sandbox_peak_mb` of the attempt is the memory that a call used at most.
        """
        folder, sandbox = sandbox_folder(ctx), self.find(limits.memory_mb)
        ranged = {key: value for key, value in arguments.items() if isinstance(value, Ranges)}
        try:
            return sandbox.run(
                name,
                to_jsonable_python({key: value for key, value in arguments.items() if key not in ranged}),
                limits=Limits(limits.memory_mb * MB + OVERHEAD_BYTES, limits.cpu_seconds, limits.file_mb * MB),
                writes=[folder],
                reads=[value for value in arguments.values() if isinstance(value, Path) and value.parent != folder],
                ranged=ranged,
                progress=ctx.progress,
                receive=receive,
                should_stop=lambda: ctx.cancelled or ctx.stopping,
            )
        finally:
            before = ctx.metrics.get(PEAK)
            ctx.metrics[PEAK] = max(sandbox.peak_bytes // MB, before if isinstance(before, int) else 0)

    def find(self, memory_mb: int) -> Sandbox:
        """The sandbox of this process for a memory limit, kept for the next call."""
        if memory_mb not in self._sandboxes:
            made = self._sandboxes[memory_mb] = Sandbox(self._module, self._make_environment(memory_mb))
            atexit.register(made.close)  # a notebook or a test that calls a handler itself leaves nothing
        return self._sandboxes[memory_mb]


def sandbox_folder(ctx: Context) -> Path:
    """A folder for a sandbox to write in; sources lie outside it, since they are links to files that others share."""
    folder = ctx.scratch / "aside"
    folder.mkdir(exist_ok=True)
    return folder
