"""One job for each file of a folder or a pattern, and a table of them at the end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from anabranch.cli.exit_codes import JobFailed, UsageError
from anabranch.cli.jobs.follow import explain_unavailable
from anabranch.cli.jobs.links import find_links
from anabranch.cli.jobs.parameters import Parameters
from anabranch.cli.terminal.output import cut, escape, note, print_json, print_table
from anabranch.cli.terminal.progress import show_files
from anabranch.client import Client, JobStatus, SubmittedJob
from anabranch.errors import AnabranchError, InputError

__all__ = ["FileSet", "find_file_set", "submit_files"]

MAX_REASONS = 5
PATTERN_CHARACTERS = frozenset("*?[")
Submit = Callable[[Parameters], SubmittedJob]


@dataclass(frozen=True)
class FileSet:
    """A parameter that stands for several files, and the pairs of the other parameters."""

    name: str
    files: Sequence[Path]
    others: Sequence[str]


@dataclass
class _Row:
    file: Path
    job_id: str | None = None
    status: str = "not submitted"
    error: AnabranchError | None = None
    links: Sequence[tuple[str, str]] = ()


def find_file_set(given: Sequence[str]) -> FileSet | None:
    """The parameter among KEY=VALUE pairs whose value is @FOLDER or a pattern like @scenes/*.tif, if there is one."""
    sets = []
    for place, pair in enumerate(given):
        name, _, text = pair.partition("=")
        if text.startswith("@") and (files := _list_files(name, text.removeprefix("@"))) is not None:
            sets.append(FileSet(name, files, [*given[:place], *given[place + 1 :]]))
    if len(sets) > 1:
        names = " and ".join(one.name for one in sets)
        raise UsageError("usage", f"{names} are several files each", remedy="Give several files to one parameter only.")
    if sets and any(pair.partition("=")[0] == sets[0].name for pair in sets[0].others):
        raise InputError("parameters.invalid", f"duplicate parameter {sets[0].name}", remedy="Give it once.")
    return sets[0] if sets else None


def _list_files(name: str, text: str) -> list[Path] | None:
    """The files of a folder or of a pattern, sorted; None if the text is neither."""
    path = Path(text).expanduser()
    if not text or not (path.is_dir() or (set(text) & PATTERN_CHARACTERS and not path.exists())):
        return None
    found = path.iterdir() if path.is_dir() else Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    files = sorted(file for file in found if file.is_file() and not file.name.startswith("."))
    if not files:
        raise InputError(
            "parameters.unreadable",
            f"{name}: {text!r} has no files",
            remedy="Name a folder with files in it, or a pattern like '@scenes/*.tif'; `**` includes folders below.",
        )
    return files


def submit_files(
    client: Client,
    files: FileSet,
    parameters: Parameters,
    submit: Submit,
    *,
    wait: bool,
    timeout: float | None,
    json: bool,
) -> None:
    """Submit a job for each file, and print a table of them; JobFailed or InputError at the end if one failed.

    A file that is refused does not affect the others.
    """
    rows = [_Row(file) for file in files.files]
    try:
        for row in rows:
            _submit(row, submit, parameters.with_file(files.name, row.file))
        if wait:
            _wait(client, rows, timeout, quiet=json)
    finally:
        _print(rows, json=json)
    _require_success(rows)


def _submit(row: _Row, submit: Submit, parameters: Parameters) -> None:
    try:
        submitted = submit(parameters)
    except InputError as error:
        row.status, row.error = "refused", error
    else:
        row.job_id, row.status = submitted.job_id, submitted.status


def _wait(client: Client, rows: Sequence[_Row], timeout: float | None, *, quiet: bool) -> None:
    """Wait for the jobs one after the other: those that end meanwhile cost one request each."""
    end = None if timeout is None else monotonic() + timeout
    waited = [row for row in rows if row.job_id]
    with show_files(len(waited), quiet) as show:
        for row in waited:
            job_id = str(row.job_id)
            with explain_unavailable(job_id):
                job = client.wait(job_id, end and max(0.0, end - monotonic()), partial(_update, row))
            _update(row, job)
            row.links = find_links(client.base_url, job)
            show(f"{row.file}: {row.status}")


def _update(row: _Row, job: JobStatus) -> None:
    row.status = job.status
    row.error = JobFailed(job.error.code, job.error.in_words, remedy=job.error.remedy) if job.error else None


def _print(rows: Sequence[_Row], *, json: bool) -> None:
    if json:
        print_json([_to_json(row) for row in rows])
        return
    head = ["file", "job", "status"]
    cells: list[list[object]] = [[row.file, row.job_id and row.job_id[:12], row.status] for row in rows]
    if any(row.error for row in rows):
        head.append("error")
        cells = [[*cell, cut(row.error and row.error.message)] for cell, row in zip(cells, rows, strict=True)]
    print_table(head, cells)
    for row in [row for row in rows if row.status == "refused"][:MAX_REASONS]:
        note(f"{row.file} was refused: {escape(row.error.message if row.error else '')}")
    for name, url in next((row.links[:1] for row in rows if row.links), ()):  # the map, which shows all of them
        note(f"{name:<9} {url.partition('#')[0]}")


def _to_json(row: _Row) -> dict[str, object]:
    error = row.error and {"code": row.error.code, "message": row.error.message, "remedy": row.error.remedy}
    return {"file": str(row.file), "job_id": row.job_id, "status": row.status, "error": error}


def _require_success(rows: Sequence[_Row]) -> None:
    refused = sum(row.status == "refused" for row in rows)
    failed = sum(row.status in ("failed", "cancelled") for row in rows)
    if failed:
        raise JobFailed(
            "files.failed",
            f"of {len(rows)} files, {failed} failed and {refused} were refused",
            remedy="`anabranch status JOB` says why a job failed, and what to do; submit the same again to run those.",
        )
    if refused:
        raise InputError(
            "files.refused",
            f"{refused} of {len(rows)} files were refused",
            remedy="Fix them, or leave them out with a pattern like '@scenes/*.tif', and submit the same again; "
            "files that have a job keep it.",
        )
