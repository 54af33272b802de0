"""A job's support bundle: everything that helps to find out why it failed, in one zip of bounded size, streamed."""

import asyncio
import json
import platform
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import structlog

from anabranch.api.answers.build import build_event, build_job, build_task, to_json
from anabranch.api.openapi.declare import Responses
from anabranch.canonical import decode
from anabranch.contract.answer import build
from anabranch.contract.jobs import Log
from anabranch.engine.read_models import JobDetail, LabelledJob
from anabranch.errors import AnabranchError
from anabranch.gateway import Gateway
from anabranch.settings import origins

__all__ = ["BUNDLE_RESPONSES", "pack"]

log = structlog.get_logger()
MEDIA_TYPE = "application/zip"
BUNDLE_RESPONSES: Responses = {
    200: {"description": "The bundle", "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
}
MAX_EVENTS = 10_000
MAX_FAILED_TASKS = 1_000
MAX_OTHER_TASKS = 20
MAX_LOGS = 200
MAX_PART_BYTES = 10_000_000
MAX_VALUE_CHARS = 200_000  # more than a log has
PAGE_ITEMS = 200
OTHER_STATUSES = ("running", "due", "ready", "cancelled", "completed")
PACKAGES = ("anabranch", "fastapi", "psycopg", "pydantic", "starlette", "structlog", "uvicorn")

Value = Any  # JSON of any shape
Pages = AsyncIterator[Sequence[Value]]


@dataclass(frozen=True)
class Part:
    """One file of the bundle: a value in each line, at most `most`; `pages` are read one by one."""

    name: str
    pages: Pages
    most: int = 1


class ZipBuffer:
    """Holds what the zip writes until it is sent."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        """Append data."""
        self._held += data
        return len(data)

    def flush(self) -> None:
        """Do nothing: `take` returns everything."""

    def take(self) -> bytes:
        """Return and clear what was written since the last call."""
        taken = bytes(self._held)
        self._held.clear()
        return taken


async def pack(gateway: Gateway, job: LabelledJob) -> AsyncIterator[bytes]:
    """The bundle of a job in pieces; what can't be read is left out and listed in the manifest."""
    sink = ZipBuffer()
    contents: dict[str, Value] = {}
    with ZipFile(sink, "w", ZIP_DEFLATED) as archive:  # type: ignore[call-overload]  # it asks a stream for no more
        for part in Contents(gateway, job).parts:
            lines, entry = await _read(part)
            contents[part.name] = entry
            await asyncio.to_thread(archive.writestr, part.name, lines)
            yield sink.take()
        manifest = {"job_id": job.job_id, "made_at": datetime.now(UTC).isoformat(), "contents": contents}
        archive.writestr("manifest.json", json.dumps(manifest, indent=2))
    yield sink.take()


async def _read(part: Part) -> tuple[str, Value]:
    """A part's text, and its entry in the manifest: the number of values, whether those are all, and an error."""
    lines: list[str] = []
    size, whole, wrong = 0, True, None
    try:
        async for page in part.pages:
            for value in page:
                line = json.dumps(_shorten_fields(value), ensure_ascii=False, default=str)
                size += len(line)
                whole = whole and len(lines) < part.most and size <= MAX_PART_BYTES
                if whole:
                    lines.append(line)
            if not whole:
                break
    except AnabranchError as error:
        log.warning("bundle.incomplete", part=part.name, code=error.code, reason=error.message)
        whole, wrong = False, error.code
    return "".join(f"{line}\n" for line in lines), {
        "count": len(lines),
        "whole": whole,
        **({"error": wrong} if wrong else {}),
    }


class Contents:
    """The parts of a job's bundle; each is read when it is written."""

    def __init__(self, gateway: Gateway, job: LabelledJob) -> None:
        self._gateway, self._reads = gateway, gateway.reads
        self._job = job

    @property
    def parts(self) -> list[Part]:
        """All parts, in order."""
        return [
            Part("job.json", self._status()),
            Part("definition.json", self._definition()),
            Part("events.jsonl", self._events(), MAX_EVENTS),
            Part("tasks-failed.jsonl", self._tasks("failed"), MAX_FAILED_TASKS),
            Part("tasks-others.jsonl", self._others(), MAX_OTHER_TASKS * len(OTHER_STATUSES)),
            Part("logs-failed.jsonl", self._logs(), MAX_LOGS),
            Part("versions.json", self._versions()),
            Part("settings.json", self._settings()),
        ]

    async def _status(self) -> Pages:
        yield [to_json(build_job(JobDetail(self._job, await self._reads.nodes(self._job.id))))]

    async def _definition(self) -> Pages:
        yield [decode((await self._reads.workflow(self._job)).text)]

    async def _events(self) -> Pages:
        last = 0
        while page := await self._reads.events(self._job.id, after=last, limit=PAGE_ITEMS):
            yield [to_json(build_event(event)) for event in page]
            last = page[-1].seq

    async def _tasks(self, status: str, limit: int = PAGE_ITEMS) -> Pages:
        after = None
        while page := await self._reads.tasks(
            self._job.id, limit=limit, after=after, node=None, status=status, whole=False
        ):
            yield [to_json(build_task(task)) for task in page]
            after = page[-1].cursor

    async def _others(self) -> Pages:
        for state in OTHER_STATUSES:
            yield await anext(self._tasks(state, MAX_OTHER_TASKS), [])

    async def _logs(self) -> Pages:
        found = await self._reads.failed_logs(self._job.id, limit=MAX_LOGS + 1)
        yield [to_json(build(Log, trace)) for trace in found]

    async def _versions(self) -> Pages:
        yield [{**_versions(), "postgresql": await self._reads.server()}]

    async def _settings(self) -> Pages:
        known = origins(self._gateway.settings)
        yield [{origin.name: {"value": origin.value, "origin": origin.origin} for origin in known}]


def _shorten_fields(value: Value) -> Value:
    """A value with large fields replaced by their size and beginning."""
    if not isinstance(value, dict):
        return value
    return {name: _shorten(inner) for name, inner in value.items()}


def _shorten(value: Value) -> Value:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= MAX_VALUE_CHARS else {"cut": len(text), "begins": text[:1000]}


def _versions() -> dict[str, Value]:
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
