"""Large files are uploaded in parts, so that an upload continues where it was interrupted."""

from functools import partial
from pathlib import Path

from anabranch.client.calls import Call, Steps
from anabranch.client.files import FilePart, OnBytes
from anabranch.client.operations import retry_while_unavailable
from anabranch.contract.answer import read
from anabranch.contract.jobs import Uploaded, UploadedPart, UploadState

__all__ = ["MAX_WHOLE_BYTES", "upload_parts"]

MAX_WHOLE_BYTES = 16 * 2**20  # a file of this size is sent again in a moment


def upload_parts(
    file: Path, size: int, sha256: str, *, name: str | None, on_progress: OnBytes | None
) -> Steps[Uploaded]:
    """Upload a file: only the parts of it that are not there yet, each of them again while the API is unavailable."""
    path, query = f"/api/uploads/{sha256}", {"name": file.name if name is None else name}
    look = Call(partial(read, UploadState), "GET", path, query=query)
    state = yield from retry_while_unavailable(lambda: look)
    if state.uploaded:
        return state.uploaded
    count = -(-size // state.part_bytes)
    sent = size - sum(_size(number, size, state.part_bytes) for number in range(count) if number not in state.parts)
    for number in range(count):
        if number in state.parts:
            continue
        yield from retry_while_unavailable(partial(_send_part, path, file, number, size, state.part_bytes))
        sent += _size(number, size, state.part_bytes)
        if on_progress:
            on_progress(sent, size)
    complete = Call(partial(read, Uploaded), "POST", path, query={**query, "parts": count}, slow=True)
    return (yield from retry_while_unavailable(lambda: complete))


def _send_part(path: str, file: Path, number: int, size: int, part_bytes: int) -> Call[UploadedPart]:
    part = FilePart(file, number * part_bytes, _size(number, size, part_bytes))
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(part.size)}
    return Call(partial(read, UploadedPart), "PUT", f"{path}/parts/{number}", body=part, headers=headers, slow=True)


def _size(number: int, size: int, part_bytes: int) -> int:
    """The bytes of a part of a file; the last one has the rest."""
    return min(part_bytes, size - number * part_bytes)
