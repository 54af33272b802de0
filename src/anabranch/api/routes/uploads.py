"""Uploads of files for jobs."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from typing import Annotated

import structlog
from fastapi import APIRouter, Header, Path, Query, Request, Response

from anabranch.access import Scope
from anabranch.api.answers.errors import InvalidRequest, Mistake
from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentLimits, needs
from anabranch.api.openapi.declare import Responses, body, problems
from anabranch.api.requests.body import check_media_type
from anabranch.api.requests.models import CompleteUploadQuery, UploadQuery
from anabranch.contract.jobs import Uploaded, UploadedPart, UploadState
from anabranch.storage.read_access import uploads_folder
from anabranch.storage.uploads import PART_BYTES, Upload

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api/uploads", tags=["uploads"])

UPLOAD_CODES = (
    *("upload.checksum", "upload.name", "upload.too_large", "quota.bytes", "request.media_type"),
    *("storage.full", "storage.path", "storage.unwritable"),
)
ANY_BYTES = "application/octet-stream"
EXISTING_FILE: Responses = {
    200: {"model": Uploaded, "description": "The same file with the same name was uploaded before"}
}
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="The SHA-256 of the whole file, in hex.")]
ReprDigest = Annotated[
    str | None,
    Header(alias="Repr-Digest", description="RFC 9530: `sha-256=:…:` is verified; other hashes are ignored."),
]
Checksum = Annotated[
    str | None, Header(alias="X-Content-SHA256", pattern=r"^[0-9a-fA-F]{64}$", description="The same in hex.")
]


@router.post(
    "",
    status_code=201,
    dependencies=[needs(Scope.SUBMIT)],
    responses={**EXISTING_FILE, **problems(*UPLOAD_CODES)},
    openapi_extra=body({"type": "string", "format": "binary"}, required=True, kinds=[ANY_BYTES]),
)
async def upload_file(
    query: Annotated[UploadQuery, Query()],
    caller: CurrentCaller,
    limits: CurrentLimits,
    gateway: CurrentGateway,
    request: Request,
    response: Response,
    repr_digest: ReprDigest = None,
    checksum: Checksum = None,
) -> Uploaded:
    """Store the file in the body; a job takes its address as a parameter."""
    pieces = _begin(request, caller, limits, gateway)
    kept = await gateway.uploads.receive(
        uploads_folder(caller.platform), query.name, pieces, _wanted(repr_digest, checksum)
    )
    request.state.unread = False
    return _answer(kept, response)


@router.get("/{sha256}", dependencies=[needs(Scope.SUBMIT)], responses=problems("upload.name", "storage.path"))
async def read_upload(
    sha256: Digest, query: Annotated[UploadQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> UploadState:
    """Show what is there of a file, so that only the rest is sent."""
    found = await asyncio.to_thread(gateway.uploads.find, uploads_folder(caller.platform), query.name, sha256)
    parts = () if found else await asyncio.to_thread(gateway.upload_parts.list, uploads_folder(caller.platform), sha256)
    uploaded = Uploaded(found.address, found.sha256, found.size) if found else None
    return UploadState(uploaded, PART_BYTES, parts)


@router.put(
    "/{sha256}/parts/{number}",
    status_code=201,
    dependencies=[needs(Scope.SUBMIT)],
    responses=problems(*UPLOAD_CODES, "upload.part"),
    openapi_extra=body({"type": "string", "format": "binary"}, required=True, kinds=[ANY_BYTES]),
)
async def upload_part(
    sha256: Digest,
    number: Annotated[int, Path(ge=0, lt=1_000_000, description="From 0.")],
    caller: CurrentCaller,
    limits: CurrentLimits,
    gateway: CurrentGateway,
    request: Request,
) -> UploadedPart:
    """Keep a part of a file; all parts but the last have `part_bytes`."""
    pieces = _begin(request, caller, limits, gateway)
    size = await gateway.upload_parts.receive(uploads_folder(caller.platform), sha256, number, pieces)
    request.state.unread = False
    return UploadedPart(number, size)


@router.post(
    "/{sha256}",
    status_code=201,
    dependencies=[needs(Scope.SUBMIT)],
    responses={**EXISTING_FILE, **problems(*UPLOAD_CODES, "upload.incomplete")},
)
async def complete_upload(
    sha256: Digest,
    query: Annotated[CompleteUploadQuery, Query()],
    caller: CurrentCaller,
    gateway: CurrentGateway,
    response: Response,
) -> Uploaded:
    """Join the parts of a file; a job takes its address as a parameter."""
    kept = await gateway.upload_parts.join(uploads_folder(caller.platform), sha256, query.name, query.parts)
    return _answer(kept, response)


def _begin(
    request: Request, caller: CurrentCaller, limits: CurrentLimits, gateway: CurrentGateway
) -> AsyncIterator[bytes]:
    """The body of a request in pieces, checked by its headers and counted."""
    request.state.unread = True
    # A page of another site can send the types of forms without asking first.
    check_media_type(request, (ANY_BYTES,), f"Send the file as it is, with Content-Type: {ANY_BYTES}.")
    length = request.headers.get("content-length", "")
    declared = int(length) if length.isdecimal() else 0
    gateway.uploads.check_size(declared)
    return limits.count_bytes(caller.principal, declared, request.stream())


def _answer(kept: Upload, response: Response) -> Uploaded:
    log.info("upload.kept", address=kept.address, size=kept.size, created=kept.created)
    response.status_code = 201 if kept.created else 200
    return Uploaded(kept.address, kept.sha256, kept.size)


def _wanted(repr_digest: str | None, checksum: str | None) -> str | None:
    given = {checksum.lower()} if checksum else set()
    found = re.search(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]*):", repr_digest or "")
    if found:
        given.add(_decode(found[1]))
    elif repr_digest and "sha-256=" in repr_digest:
        raise _bad_digest()
    if len(given) > 1:
        raise InvalidRequest([Mistake(where="header.Repr-Digest", detail="It differs from X-Content-SHA256")])
    return next(iter(given), None)


def _decode(text: str) -> str:
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise _bad_digest() from error
    if len(digest) != 32:
        raise _bad_digest()
    return digest.hex()


def _bad_digest() -> InvalidRequest:
    return InvalidRequest(
        [Mistake(where="header.Repr-Digest", detail="It must be sha-256=:…: with 32 bytes in base64")]
    )
