"""Paths of the API, and the bodies that go there."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from anabranch.errors import InputError, NotFound

__all__ = ["encode_body", "encode_part", "job_path", "list_of", "segment", "workflow_path"]

Item = TypeVar("Item")


def job_path(job_id: str) -> str:
    """Where a job is; NotFound for what is no id."""
    if (part := encode_part(job_id)) is None:
        raise NotFound("job.not_found", f"{job_id!r} is not a job id", remedy="List them with `anabranch jobs`.")
    return f"/api/jobs/{part}"


def workflow_path(workflow_id: str) -> str:
    """Where a workflow is; NotFound for what is no name of one."""
    if (part := encode_part(workflow_id)) is None:
        remedy = "List them with `anabranch workflows list`."
        raise NotFound("workflow.not_found", f"{workflow_id!r} is not a workflow's name", remedy=remedy)
    return f"/api/workflows/{part}"


def segment(name: str) -> str:
    """A name as a part of a path."""
    if (part := encode_part(name)) is None:
        raise InputError("name.invalid", f"{name!r} is not a name")
    return part


def encode_part(name: str) -> str | None:
    """A name as one step of a path; None for what can't be one."""
    # Of dots a URL makes steps, of nothing the list above, and of a slash two steps: servers decode before they look.
    if not name.strip(".") or "/" in name:
        return None
    # What the command line can't decode comes as half characters, and goes back to the bytes it was.
    return quote(name, safe="", errors="surrogateescape")


def list_of(read: Callable[[Any], Item]) -> Callable[[Any], list[Item]]:  # JSON of the API
    """What reads a list of what `read` reads."""
    return lambda raw: [read(one) for one in raw]


def encode_body(value: object) -> bytes:
    """A value as a body; InputError for what JSON can't hold."""
    from anabranch.canonical import encode

    try:
        return encode(value).encode()
    except ValueError as error:
        raise InputError("job.parameters", f"what was given can't be sent: {error}") from error
