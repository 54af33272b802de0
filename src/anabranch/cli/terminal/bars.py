"""Progress bars on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from anabranch.cli.terminal.output import escape, format_progress, wants_colour
from anabranch.cli.terminal.progress import current_step
from anabranch.client import JobStatus

__all__ = ["FileBar", "JobBars", "NodeBars", "open_bars", "open_upload_bar"]


@contextmanager
def open_bars() -> Iterator[Progress]:
    """Bars on stderr."""
    columns = (
        TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[status]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=_open_console()) as bars:
        yield bars


@contextmanager
def open_upload_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A callback for the bytes of a file that were sent; its bar goes when it is sent."""
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=_open_console(), transient=True) as bars:
        bar = bars.add_task(escape(name), total=None)
        yield lambda sent, total: bars.update(bar, completed=sent, total=total)


def _open_console() -> Console:
    return Console(stderr=True, no_color=not wants_colour(terminal=True), highlight=False)


class FileBar:
    """One bar for many files."""

    def __init__(self, bars: Progress, total: int) -> None:
        self._bars = bars
        self._id = bars.add_task("files", total=total, state="")

    def show(self, text: str) -> None:
        self._bars.update(self._id, advance=1, state=escape(text))


class NodeBars:
    """A bar for each open node; it has no length until the tasks are counted."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._ids: dict[str, TaskID] = {}

    def show(self, job: JobStatus) -> None:
        for node in job.nodes:
            name, tasks = node.name, node.tasks
            if not node.opened_at:
                continue
            if name not in self._ids:
                # The default total of 100 would be drawn before the next line sets the real one.
                self._ids[name] = self._bars.add_task(name, total=None, status="")
            status = format_progress(node.progress) or node.status
            self._bars.update(self._ids[name], completed=node.done, total=tasks.total or None, status=escape(status))


class JobBars:
    """A bar for each job, with one unit per node."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._ids: dict[str, TaskID] = {}

    def show(self, name: str, job: JobStatus) -> None:
        if name not in self._ids:
            self._ids[name] = self._bars.add_task(name, total=len(job.nodes), status="")
        done = sum(node.status in ("completed", "skipped", "cancelled", "failed") for node in job.nodes)
        said = next((format_progress(node.progress) for node in job.nodes if node.status == "running"), None)
        self._bars.update(
            self._ids[name], completed=done, status=escape(": ".join(filter(None, (current_step(job), said))))
        )
