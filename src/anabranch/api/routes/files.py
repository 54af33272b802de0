"""Published files, whole or in ranges."""

import re
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from fastapi.responses import StreamingResponse

from anabranch.access import Scope
from anabranch.adapters.postgres.store.published.files import StoredFile
from anabranch.api.answers.errors import respond
from anabranch.api.answers.etags import IfNoneMatch
from anabranch.api.deps import CurrentReads, CurrentServing, needs
from anabranch.api.openapi.declare import JOB_CODES, Responses, problems
from anabranch.api.paths import CollectionId, ItemId, JobId
from anabranch.api.security.root_path import at_root
from anabranch.canonical import sha256
from anabranch.contract.published_links import path_of
from anabranch.errors import AnabranchError, InputError, NotFound
from anabranch.serving.etags import has
from anabranch.serving.subapps import Serving

__all__ = ["router"]

router = APIRouter(tags=["files"])
FILE_HEADERS = {
    name: {"schema": {"type": "string"}}
    for name in ("ETag", "Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Range")
}
BYTES = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
FILE_RESPONSES: Responses = {
    200: {"description": "The file", "content": BYTES, "headers": FILE_HEADERS},
    206: {"description": "The range of it", "content": BYTES, "headers": FILE_HEADERS},
    304: {"description": "What the caller has kept is what there is", "headers": {"ETag": FILE_HEADERS["ETag"]}},
}
# A name with a line break matches no route.
FILE_CODES = ("file.not_published", "file.lost", "file.range", "request.route")

MAX_RANGE_DIGITS = 18
MAX_RANGE_POSITION = 10**MAX_RANGE_DIGITS
# What a browser shows and never runs; all else is for keeping.
INLINE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "application/json"})

GivenRange = Annotated[
    str | None, Header(alias="Range", description="One range of bytes; for several ranges, the whole file is sent.")
]
IfRange = Annotated[
    str | None, Header(alias="If-Range", description="The range applies only if the file still has this ETag.")
]


Name = Annotated[str, Path(max_length=1024, description="The name of the file; it may have slashes.")]
PublicationId = Annotated[str, Path(max_length=64, description="The id of a publication.")]


@dataclass(frozen=True)
class FileRequest:
    """The range and the cached version of a file that a request names."""

    request: Request
    if_none_match: IfNoneMatch = None
    given_range: GivenRange = None
    if_range: IfRange = None


WantedFile = Annotated[FileRequest, Depends()]


@router.head("/files/p/{publication}/{name:path}", dependencies=[needs(Scope.READ)], include_in_schema=False)
@router.get(
    "/files/p/{publication}/{name:path}",
    dependencies=[needs(Scope.READ)],
    response_class=Response,
    responses={**FILE_RESPONSES, **problems("file.gone", *FILE_CODES)},
)
async def fetch_file(
    publication: PublicationId, name: Name, wish: WantedFile, serving: CurrentServing, reads: CurrentReads
) -> Response:
    """A file of a publication, or a range of it: always the same bytes, or 410 with the item that replaced it."""
    file = None if "\x00" in name else await reads.files().find(publication, name)
    return await _serve(file, f"{publication}/{name}", wish, serving)


@router.head(
    "/files/current/{collection}/{item}/{name:path}", dependencies=[needs(Scope.READ)], include_in_schema=False
)
@router.get(
    "/files/current/{collection}/{item}/{name:path}",
    dependencies=[needs(Scope.READ)],
    status_code=302,
    response_class=Response,
    responses={
        302: {"headers": {"Location": {"schema": {"type": "string"}}}},
        **problems("file.gone", "file.not_published", "request.route"),
    },
)
async def find_current_file(collection: CollectionId, item: ItemId, name: Name, reads: CurrentReads) -> Response:
    """Where a file of an item is as it is published now; that changes when the item does."""
    file = None if "\x00" in name else await reads.files().find_current(collection, item, name)
    if file is None:
        raise _not_published(f"{collection}/{item}/{name}")
    headers = {"Location": at_root(path_of(file)), "Cache-Control": "no-store"}
    return Response(status_code=302, headers=headers)


@router.head("/api/jobs/{job_id}/outputs/{name:path}", dependencies=[needs(Scope.OPERATE)], include_in_schema=False)
@router.get(
    "/api/jobs/{job_id}/outputs/{name:path}",
    dependencies=[needs(Scope.OPERATE)],
    response_class=Response,
    responses={**FILE_RESPONSES, **problems(*JOB_CODES, *FILE_CODES)},
)
async def fetch_output(
    job_id: JobId, name: Name, wish: WantedFile, serving: CurrentServing, reads: CurrentReads
) -> Response:
    """An output file of a job, published or not, for reviewers."""
    head = await reads.head(job_id)
    file = None if "\x00" in name else await reads.files().find_draft(head.job, name)
    return await _serve(file, f"{job_id}/{name}", wish, serving)


async def _serve(file: StoredFile | None, path: str, wish: FileRequest, serving: Serving) -> Response:
    file, request = await _require(file, path, serving), wish.request
    headers = _headers(file)
    if has(wish.if_none_match, headers["ETag"]):
        return Response(status_code=304, headers={k: headers[k] for k in ("ETag", "Cache-Control")})
    # A range is for GET alone (RFC 9110, 14.2).
    counts = request.method == "GET" and wish.if_range in (None, headers["ETag"])
    span = parse_range(wish.given_range, file.size) if counts else None
    if span is not None and not span:
        return _unsatisfiable(request, file)
    start, length = (span.start, len(span)) if span else (0, file.size)
    headers["Content-Length"] = str(length)
    if span:
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{file.size}"
    if request.method == "HEAD":
        return Response(headers=headers, media_type=file.media_type)
    pieces = serving.objects.read(file.address, start, length, file.version)
    return StreamingResponse(pieces, 206 if span else 200, headers, file.media_type)


def parse_range(text: str | None, size: int) -> range | None:
    """The bytes that a Range header selects: none if it can't be satisfied, None for the whole file (RFC 9110)."""
    found = re.fullmatch(r"bytes=\s*(\d*)-(\d*)\s*", text or "", re.ASCII)
    if not found or not any(found.groups()):
        return None
    first, last = (_parse_place(digits) for digits in found.groups())
    if first is None:
        return range(max(0, size - (last or 0)), size)
    if last is not None and last < first:
        return None
    return range(first, size if last is None else min(last + 1, size))


def _parse_place(digits: str) -> int | None:
    if not digits:
        return None
    # Python refuses to read thousands of digits; beyond the end of any file all places are the same.
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= MAX_RANGE_DIGITS else MAX_RANGE_POSITION


async def _require(file: StoredFile | None, path: str, serving: Serving) -> StoredFile:
    if file is None:
        raise _not_published(path)
    size = await serving.objects.size(file.address, file.version)
    if size != file.size:
        raise AnabranchError("file.lost", f"the published file {file.name} has {size} bytes instead of {file.size}")
    return file


def _not_published(path: str) -> NotFound:
    return NotFound("file.not_published", f"there is no published file {path}", remedy="See the assets of the items.")


def _headers(file: StoredFile) -> dict[str, str]:
    base = file.name.rpartition("/")[2]
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", base)
    shown = file.media_type.partition(";")[0].strip().lower() in INLINE_TYPES
    how = "inline" if shown else "attachment"
    return {
        "ETag": f'"{file.sha256 or sha256(f"{file.address} {file.version}")}"',
        "Cache-Control": "private, max-age=300",
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(base, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",  # a file may be a page
    }


def _unsatisfiable(request: Request, file: StoredFile) -> Response:
    refused = InputError("file.range", f"the file has {file.size} bytes", remedy="Ask for a range within them.")
    response = respond(refused, path=request.url.path, correlation_id=request.state.correlation_id)
    response.headers["Content-Range"] = f"bytes */{file.size}"
    response.headers["Accept-Ranges"] = "bytes"
    return response
