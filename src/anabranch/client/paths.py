"""Paths and request bodies of the API."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from anabranch.errors import InputError, NotFound

__all__ = ["encode_body", "encode_part", "job_path", "list_of", "segment", "workflow_path"]

Item = TypeVar("Item")


def job_path(job_id: str) -> str:
    """The path of a job; NotFound if the id is not valid."""
    if (part := encode_part(job_id)) is None:
        raise NotFound("job.not_found", f"{job_id!r} is not a job id", remedy="List them with `anabranch jobs`.")
    return f"/api/jobs/{part}"


def workflow_path(workflow_id: str) -> str:
    """The path of a workflow; NotFound if the name is not valid."""
    if (part := encode_part(workflow_id)) is None:
        remedy = "List them with `anabranch workflows list`."
        raise NotFound("workflow.not_found", f"{workflow_id!r} is not a workflow's name", remedy=remedy)
    return f"/api/workflows/{part}"


def segment(name: str) -> str:
    """A name as a path segment; InputError if it can't be one."""
    if (part := encode_part(name)) is None:
        raise InputError("name.invalid", f"{name!r} is not a name")
    return part


def encode_part(name: str) -> str | None:
    """A name as a path segment; None if it can't be one."""
    # Dots would change the path, an empty name would be the list above, and a slash would make two segments: servers
    # decode before they route.
    if not name.strip(".") or "/" in name:
        return None
    # Undecodable bytes of the command line arrive as surrogates, and are turned back into bytes.
    return quote(name, safe="", errors="surrogateescape")


def list_of(read: Callable[[Any], Item]) -> Callable[[Any], list[Item]]:  # JSON of the API
    """A reader of lists whose items `read` parses."""
    return lambda raw: [read(one) for one in raw]


def encode_body(value: object) -> bytes:
    """A value as a JSON body; InputError if JSON can't hold it."""
    from anabranch.canonical import encode

    try:
        return encode(value).encode()
    except ValueError as error:
        raise InputError("job.parameters", f"the value can't be sent: {error}") from error
