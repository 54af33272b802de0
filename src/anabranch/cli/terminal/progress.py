"""A job's progress on stderr: bars on a terminal, otherwise a line for each change."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anabranch.cli.terminal.output import note
from anabranch.client import JobStatus

__all__ = ["current_step", "show_files", "show_jobs", "show_progress", "show_upload"]


@contextmanager
def show_progress(quiet: bool) -> Iterator[Callable[[JobStatus], None]]:
    """A callback for each change of a job."""
    if quiet:
        yield lambda _job: None
        return
    if not sys.stderr.isatty():
        yield _Lines().show
        return
    from anabranch.cli.terminal.bars import NodeBars, open_bars  # rich takes long to import

    with open_bars() as bars:
        yield NodeBars(bars).show


@contextmanager
def show_jobs(quiet: bool) -> Iterator[Callable[[str, JobStatus], None]]:
    """A callback for each update of one of several jobs, with its name."""
    if quiet:
        yield lambda _name, _job: None
        return
    if not sys.stderr.isatty():
        yield _Steps().show
        return
    from anabranch.cli.terminal.bars import JobBars, open_bars

    with open_bars() as bars:
        yield JobBars(bars).show


@contextmanager
def show_files(total: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A callback for each of several files that is done, with a line about it."""
    if quiet or not sys.stderr.isatty():
        yield (lambda _text: None) if quiet else note
        return
    from anabranch.cli.terminal.bars import FileBar, open_bars

    with open_bars() as bars:
        yield FileBar(bars, total).show


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
