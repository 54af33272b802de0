"""Paths of the API, and the bodies that go there."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from anabranch.engine.errors import InputError, NotFound

__all__ = ["encode_body", "job_path", "list_of", "segment"]

Item = TypeVar("Item")


def job_path(job_id: str) -> str:
    """Where a job is; NotFound for what is no id."""
    # Of dots a URL makes steps, and of nothing the list of jobs.
    if not job_id.strip("."):
        raise NotFound("job.not_found", f"{job_id!r} is not a job id", remedy="List them with `anabranch jobs`.")
    # What the command line can't decode comes as half characters, and goes back to the bytes it was.
    return f"/api/jobs/{quote(job_id, safe='', errors='surrogateescape')}"


def segment(name: str) -> str:
    """A name as a part of a path; of dots a URL would make steps."""
    if not name.strip("."):
        raise InputError("name.invalid", f"{name!r} is not a name")
    return quote(name, safe="", errors="surrogateescape")


def list_of(read: Callable[[Any], Item]) -> Callable[[Any], list[Item]]:  # JSON of the API
    """What reads a list of what `read` reads."""
    return lambda raw: [read(one) for one in raw]


def encode_body(value: object) -> bytes:
    """A value as a body; InputError for what JSON can't hold."""
    from anabranch.engine.canonical import encode

    try:
        return encode(value).encode()
    except ValueError as error:
        raise InputError("job.parameters", f"what was given can't be sent: {error}") from error
