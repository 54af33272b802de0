"""Paths and request bodies of the API."""

from urllib.parse import quote

from anabranch.errors import InputError, NotFound

__all__ = [
    "any_segment",
    "encode_body",
    "job_path",
    "limit_path",
    "pause_path",
    "segment",
    "workflow_path",
    "writers_path",
]


def job_path(job_id: str) -> str:
    """The path of a job; NotFound if the id is not valid."""
    if (part := _encode(job_id)) is None:
        raise NotFound("job.not_found", f"{job_id!r} is not a job id", remedy="List them with `anabranch jobs`.")
    return f"/api/jobs/{part}"


def workflow_path(workflow_id: str) -> str:
    """The path of a workflow; NotFound if the name is not valid."""
    if (part := _encode(workflow_id)) is None:
        remedy = "List them with `anabranch workflows list`."
        raise NotFound("workflow.not_found", f"{workflow_id!r} is not a workflow's name", remedy=remedy)
    return f"/api/workflows/{part}"


def any_segment(name: str) -> str:
    """A name as a path segment; if it can't be one, a segment that names nothing."""
    return _encode(name) or "-"


def limit_path(kind: str, name: str) -> str:
    """The path of a limit."""
    return f"/api/limits/{segment(kind)}/{segment(name)}"


def pause_path(kind: str, name: str, verb: str) -> str:
    """The path that pauses or resumes a queue or a workflow."""
    return f"/api/{segment(kind)}s/{segment(name)}/{verb}"


def writers_path(collection: str, platform: str | None = None) -> str:
    """The path of the writers of a collection, or of one of them."""
    path = f"/api/collections/{segment(collection)}/writers"
    return path if platform is None else f"{path}/{segment(platform)}"


def segment(name: str) -> str:
    """A name as a path segment; InputError if it can't be one."""
    if (part := _encode(name)) is None:
        raise InputError("name.invalid", f"{name!r} is not a name")
    return part


def _encode(name: str) -> str | None:
    """A name as a path segment; None if it can't be one."""
    # Dots would change the path, an empty name would be the list above, and a slash would make two segments: servers
    # decode before they route.
    if not name.strip(".") or "/" in name:
        return None
    # Undecodable bytes of the command line arrive as surrogates, and are turned back into bytes.
    return quote(name, safe="", errors="surrogateescape")


def encode_body(value: object) -> bytes:
    """A value as a JSON body; InputError if JSON can't hold it."""
    from anabranch.canonical import encode

    try:
        return encode(value).encode()
    except ValueError as error:
        raise InputError("job.parameters", f"the value can't be sent: {error}") from error
