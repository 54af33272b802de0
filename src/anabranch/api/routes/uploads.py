"""Uploads of files for jobs."""

import base64
import re
from typing import Annotated

import structlog
from fastapi import APIRouter, Header, Query, Request, Response

from anabranch.access import Scope
from anabranch.api.answers.errors import InvalidRequest, Mistake
from anabranch.api.body import check_media_type
from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentLimits, needs
from anabranch.api.openapi.declare import Responses, body, problems
from anabranch.api.requests import UploadQuery
from anabranch.contract.jobs import Uploaded

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
    request.state.unread = True
    # A page of another site can send the types of forms without asking first.
    check_media_type(request, (ANY_BYTES,), f"Send the file as it is, with Content-Type: {ANY_BYTES}.")
    length = request.headers.get("content-length", "")
    declared = int(length) if length.isdecimal() else 0
    gateway.uploads.check_size(declared)
    pieces = limits.count_bytes(caller.principal, declared, request.stream())
    kept = await gateway.uploads.receive(query.name, pieces, _wanted(repr_digest, checksum))
    request.state.unread = False
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
