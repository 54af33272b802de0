"""Signed statements: the DSSE envelope."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Collection
from contextlib import suppress
from json import loads

from pydantic import ValidationError

from anabranch.canonical import Json, canonical
from anabranch.contract.answer import read
from anabranch.contract.catalog import Envelope, Signature
from anabranch.errors import Conflict, InputError
from anabranch.manifests.signing_key import SigningKey, id_of, read_public_key
from anabranch.manifests.statement import Statement

__all__ = ["open_envelope", "read_envelope", "sign", "write_envelope"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
REMEDY = "Get the manifest again; if that does not help, find out who changed it."


def sign(statement: Statement, key: SigningKey) -> Envelope:
    """The statement in an envelope with one signature."""
    payload = statement.model_dump_json(by_alias=True, exclude_none=True).encode()
    signature = Signature(keyid=key.id, sig=b64encode(key.sign(_encode(payload))).decode())
    return Envelope(PAYLOAD_TYPE, b64encode(payload).decode(), (signature,))


def write_envelope(envelope: Envelope) -> str:
    """The envelope as JSON."""
    signatures: list[Json] = [{"keyid": one.keyid, "sig": one.sig} for one in envelope.signatures]
    return canonical({"payloadType": envelope.payload_type, "payload": envelope.payload, "signatures": signatures})


def read_envelope(text: str | bytes) -> Envelope:
    """The envelope of a file; its signatures are not checked yet."""
    try:
        return read(Envelope, loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError("manifest.unreadable", f"this is not a manifest: {error!r}") from error


def open_envelope(envelope: Envelope, public_keys: Collection[str]) -> tuple[Statement, str]:
    """The statement and the id of the key that signed it; Conflict if none of these public keys did."""
    from cryptography.exceptions import InvalidSignature

    known = {id_of(key): read_public_key(key) for key in public_keys}
    payload = _decode(envelope.payload)
    mine = [signature for signature in envelope.signatures if signature.keyid in known]
    for signature in mine:
        with suppress(InvalidSignature):
            known[signature.keyid].verify(_decode(signature.sig), _encode(payload))
            return _read_statement(envelope, payload), signature.keyid
    if mine:
        what = f"the signature by key {mine[0].keyid} does not fit: the manifest was changed"
        raise Conflict("manifest.signature", what, remedy=REMEDY)
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
        raise InputError(
            "manifest.unreadable", f"this is not a manifest that Anabranch signed: {error.errors()[0]['msg']}"
        ) from error


def _encode(payload: bytes) -> bytes:
    """What is signed: DSSE's encoding of the type and the payload, each with its length."""
    return b" ".join((b"DSSEv1", b"%d" % len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), b"%d" % len(payload), payload))


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise InputError("manifest.unreadable", f"the manifest is not base64: {error}") from error
