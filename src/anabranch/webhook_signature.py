"""Signatures of webhooks, by the standard of standardwebhooks.com."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.errors import InputError

__all__ = ["MAX_SECRET_CHARACTERS", "MIN_SECRET_CHARACTERS", "make_secret", "read_secret", "sign", "verify_webhook"]

PREFIX = "whsec_"
SECRET_BYTES = 32
MIN_SECRET_CHARACTERS = 16
MAX_SECRET_CHARACTERS = 256
TOLERANCE_SECONDS = 300


def make_secret(key: bytes | None = None) -> str:
    """A new secret, as it is shown once, or that of a key."""
    return PREFIX + base64.b64encode(key or secrets.token_bytes(SECRET_BYTES)).decode()


def read_secret(text: str) -> bytes:
    """The key that a secret stands for: base64 after `whsec_`, otherwise the text itself."""
    if not MIN_SECRET_CHARACTERS <= len(text) <= MAX_SECRET_CHARACTERS:
        said = f"a secret has {MIN_SECRET_CHARACTERS} to {MAX_SECRET_CHARACTERS} characters, not {len(text)}"
        raise InputError("webhook.secret", said)
    if not text.startswith(PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InputError("webhook.secret", f"a secret that begins with {PREFIX} must go on in base64") from None


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of a message."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(read_secret(secret), signed, hashlib.sha256)).decode()


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> Any:  # the JSON that was sent
    """The content of a webhook that was signed with this secret, or one of these; InputError if it was not.

    `body` is what was received, byte by byte. A message may come twice: remember its `webhook-id`.
    """
    raw = body.encode() if isinstance(body, str) else body
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, sent, signatures = (given[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        timestamp = int(sent)
    except (KeyError, ValueError):
        raise _invalid("its headers webhook-id, webhook-timestamp and webhook-signature are missing or wrong") from None
    if abs(time.time() - timestamp) > tolerance_seconds:
        raise _invalid(f"it was signed more than {tolerance_seconds:g} seconds ago, or by another clock")
    known = [sign(one, message_id, timestamp, raw) for one in ([secret] if isinstance(secret, str) else secret)]
    if not any(hmac.compare_digest(ours.encode(), theirs.encode()) for ours in known for theirs in signatures.split()):
        raise _invalid("it was not signed with this secret, or was changed on its way")
    return json.loads(raw)


def _invalid(reason: str) -> InputError:
    return InputError("webhook.signature", f"this webhook is not to be trusted: {reason}")
