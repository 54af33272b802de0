"""Signed statements: the DSSE envelope."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Collection

from pydantic import Field, ValidationError

from anabranch.errors import Conflict, InputError
from anabranch.manifests.signing_key import SigningKey, id_of, read_public_key
from anabranch.manifests.statement import Statement
from anabranch.strict_model import StrictModel

__all__ = ["Envelope", "open_envelope", "read_envelope", "sign"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
REMEDY = "Get the manifest again; if it stays so, what was published was changed by somebody else."


class Signature(StrictModel):
    """A signature, and the id of its key."""

    keyid: str
    sig: str


class Envelope(StrictModel):
    """A statement as its exact bytes in base64, with its signatures."""

    payload_type: str = Field(alias="payloadType")
    payload: str
    signatures: list[Signature]


def sign(statement: Statement, key: SigningKey) -> Envelope:
    """The statement in an envelope with one signature."""
    payload = statement.model_dump_json(by_alias=True, exclude_none=True).encode()
    signature = Signature(keyid=key.id, sig=b64encode(key.sign(_encode(payload))).decode())
    return Envelope(payloadType=PAYLOAD_TYPE, payload=b64encode(payload).decode(), signatures=[signature])


def read_envelope(text: str | bytes) -> Envelope:
    """The envelope of a file or an answer; its signatures are not checked yet."""
    try:
        return Envelope.model_validate_json(text)
    except ValidationError as error:
        raise InputError("manifest.unreadable", f"this is not a manifest: {error.errors()[0]['msg']}") from error


def open_envelope(envelope: Envelope, public_keys: Collection[str]) -> tuple[Statement, str]:
    """The statement and the id of the key that signed it; Conflict if none of these public keys did."""
    from cryptography.exceptions import InvalidSignature

    known = {id_of(key): read_public_key(key) for key in public_keys}
    payload = _decode(envelope.payload)
    for signature in envelope.signatures:
        if found := known.get(signature.keyid):
            try:
                found.verify(_decode(signature.sig), _encode(payload))
            except InvalidSignature:
                what = f"the signature by key {signature.keyid} does not fit: the manifest was changed"
                raise Conflict("manifest.signature", what, remedy=REMEDY) from None
            return _read_statement(envelope, payload), signature.keyid
    ids = ", ".join(signature.keyid for signature in envelope.signatures) or "no key"
    raise Conflict(
        "manifest.unknown_key",
        f"the manifest is signed by {ids}, which is not among the {len(known)} known keys",
        remedy="Add the public key if you trust it; `anabranch signing-keys list` shows those of a stack.",
    )


def _read_statement(envelope: Envelope, payload: bytes) -> Statement:
    if envelope.payload_type != PAYLOAD_TYPE:
        raise InputError("manifest.unreadable", f"the manifest holds {envelope.payload_type}, not {PAYLOAD_TYPE}")
    try:
        return Statement.model_validate_json(payload)
    except ValidationError as error:
        raise InputError("manifest.unreadable", f"this is no manifest of ours: {error.errors()[0]['msg']}") from error


def _encode(payload: bytes) -> bytes:
    """What is signed: DSSE's encoding of the type and the payload, each with its length."""
    return b" ".join((b"DSSEv1", b"%d" % len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), b"%d" % len(payload), payload))


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise InputError("manifest.unreadable", f"the manifest is not base64: {error}") from error
