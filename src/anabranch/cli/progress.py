"""A job's progress on stderr: bars on a terminal, otherwise a line for each change."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.cli.show import escape, format_progress, note, wants_colour

if TYPE_CHECKING:
    from anabranch.client import JobStatus

__all__ = ["Bars", "show_jobs", "show_progress"]


@contextmanager
def show_progress(quiet: bool) -> "Iterator[Callable[[JobStatus], None]]":
    """A callback for each change of a job."""
    if quiet:
        yield lambda _job: None
        return
    if not sys.stderr.isatty():
        yield _Lines().show
        return
    with _bars() as bars:
        yield Bars(bars).show


@contextmanager
def show_jobs(quiet: bool) -> "Iterator[Callable[[str, JobStatus], None]]":
    """A callback for each update of one of several jobs, with its name."""
    if quiet:
        yield lambda _name, _job: None
        return
    if not sys.stderr.isatty():
        yield _Steps().show
        return
    with _bars() as bars:
        yield _JobBars(bars).show


@contextmanager
def _bars() -> Iterator[Any]:  # rich's Progress, which is imported only where it is used
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, no_color=not wants_colour(terminal=True), highlight=False)
    columns = (
        TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[state]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=console) as bars:
        yield bars


class _Lines:
    """Prints the progress of each node, once for each change."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def show(self, job: "JobStatus") -> None:
        for node in job.nodes:
            tasks = node.tasks
            known = f" {tasks.completed}/{tasks.total}" if tasks.total else ""
            failed = f", {tasks.failed} failed" if tasks.failed else ""
            line = f"{node.name}: {node.state}{known}{failed}"
            if node.opened_at and self._said.get(node.name) != line:
                self._said[node.name] = line
                note(line)


class Bars:
    """A bar for each open node; it has no length until the tasks are counted."""

    def __init__(self, bars: "Any") -> None:  # rich's Progress, which is imported only where it is used
        self._bars = bars
        self._ids: dict[str, Any] = {}

    def show(self, job: "JobStatus") -> None:
        for node in job.nodes:
            name, tasks = node.name, node.tasks
            if not node.opened_at:
                continue
            if name not in self._ids:
                # The default total of 100 would be drawn before the next line sets the real one.
                self._ids[name] = self._bars.add_task(name, total=None, state="")
            done = tasks.completed + tasks.failed + tasks.cancelled
            state = format_progress(node.progress) or node.state
            self._bars.update(self._ids[name], completed=done, total=tasks.total or None, state=escape(state))


class _Steps:
    """Prints the current step of each job, once for each step."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def show(self, name: str, job: "JobStatus") -> None:
        step = _step(job)
        if self._said.get(name) != step:
            self._said[name] = step
            note(f"{name}: {step}")


class _JobBars:
    """A bar for each job, with one unit per node."""

    def __init__(self, bars: Any) -> None:  # rich's Progress
        self._bars = bars
        self._ids: dict[str, Any] = {}

    def show(self, name: str, job: "JobStatus") -> None:
        if name not in self._ids:
            self._ids[name] = self._bars.add_task(name, total=len(job.nodes), state="")
        done = sum(node.state in ("completed", "skipped", "cancelled", "failed") for node in job.nodes)
        said = next((format_progress(node.progress) for node in job.nodes if node.state == "running"), None)
        self._bars.update(self._ids[name], completed=done, state=escape(": ".join(filter(None, (_step(job), said)))))


def _step(job: "JobStatus") -> str:
    """The running nodes of a job, or its status."""
    running = [node.name for node in job.nodes if node.state == "running"]
    return ", ".join(running) if running and job.status == "running" else str(job.status)
