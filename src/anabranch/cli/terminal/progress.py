"""A job's progress on stderr: bars on a terminal, otherwise a line for each change."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.cli.terminal.output import note
from anabranch.client import JobStatus

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["current_step", "show_files", "show_jobs", "show_progress", "show_upload"]

Show = TypeVar("Show", bound=Callable[..., None])


def show_progress(quiet: bool) -> AbstractContextManager[Callable[[JobStatus], None]]:
    """A callback for each change of a job."""
    return _choose(quiet, lambda _job: None, _Lines().show, lambda bars, opened: bars.NodeBars(opened).show)


def show_jobs(quiet: bool) -> AbstractContextManager[Callable[[str, JobStatus], None]]:
    """A callback for each update of one of several jobs, with its name."""
    return _choose(quiet, lambda _name, _job: None, _Steps().show, lambda bars, opened: bars.JobBars(opened).show)


def show_files(total: int, quiet: bool) -> AbstractContextManager[Callable[[str], None]]:
    """A callback for each of several files that is done, with a line about it."""
    return _choose(quiet, lambda _text: None, note, lambda bars, opened: bars.FileBar(opened, total).show)


@contextmanager
def _choose(
    quiet: bool,
    silent: Show,
    lines: Show,
    in_bars: Callable[[Any, "Progress"], Show],  # a module, which has no type
) -> Iterator[Show]:
    """The callback that shows nothing, that prints lines, or on a terminal that of bars, whose module is given."""
    if quiet or not sys.stderr.isatty():
        yield silent if quiet else lines
        return
    from anabranch.cli.terminal import bars  # rich takes long to import

    with bars.open_bars() as opened:
        yield in_bars(bars, opened)


@contextmanager
def show_upload(name: str, quiet: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """A callback for the bytes of a file that were sent, and for all of them if that is known; None if nobody looks."""
    if quiet or not sys.stderr.isatty():
        if not quiet:
            note(f"uploading {name}")
        yield None
        return
    from anabranch.cli.terminal.bars import open_upload_bar

    with open_upload_bar(name) as show:
        yield show


class _Lines:
    """Prints the progress of each node, once for each change."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def show(self, job: JobStatus) -> None:
        for node in job.nodes:
            tasks = node.tasks
            known = f" {tasks.completed}/{tasks.total}" if tasks.total else ""
            failed = f", {tasks.failed} failed" if tasks.failed else ""
            line = f"{node.name}: {node.status}{known}{failed}"
            line += f"; answer it: {node.command}" if node.command else ""
            if node.opened_at and self._said.get(node.name) != line:
                self._said[node.name] = line
                note(line)


class _Steps:
    """Prints the current step of each job, once for each step."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def show(self, name: str, job: JobStatus) -> None:
        step = current_step(job)
        if self._said.get(name) != step:
            self._said[name] = step
            note(f"{name}: {step}")


def current_step(job: JobStatus) -> str:
    """The running nodes of a job, or its status."""
    running = [node.name for node in job.nodes if node.status == "running"]
    return ", ".join(running) if running and job.status == "running" else str(job.status)
