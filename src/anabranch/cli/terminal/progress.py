"""A job's progress on stderr: bars on a terminal, otherwise a line for each change."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anabranch.cli.terminal.output import note
from anabranch.client import JobStatus

__all__ = ["current_step", "show_jobs", "show_progress"]


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
