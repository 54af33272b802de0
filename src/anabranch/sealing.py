"""Secrets of endpoints are sealed with a key from a file, and bound to their endpoint: a row alone is useless (S5)."""

import base64
import binascii
import hmac
import os
from pathlib import Path
from uuid import UUID

from anabranch.canonical import Json, canonical
from anabranch.errors import Unavailable
from anabranch.key_file import make_key_file

__all__ = ["FILE_NAME", "Sealer"]

FILE_NAME = "webhook-key"
KEY_BYTES = 32
NONCE_BYTES = 12


class Sealer:
    """Seals and opens secrets with AES-GCM."""

    def __init__(self, key: bytes) -> None:
        """Use `open`, which reads or makes the file."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # imported where it is used: few processes do

        self._key = key
        self._cipher = AESGCM(key)

    @classmethod
    def open(cls, file: Path) -> "Sealer":
        """By the key of a file; the first process that needs one makes it."""
        try:
            if not file.exists():
                make_key_file(file, lambda: base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
            key = base64.b64decode(file.read_bytes().strip(), validate=True)
            if len(key) != KEY_BYTES:
                raise ValueError("it is not 32 bytes in base64")
        except (OSError, binascii.Error, ValueError) as error:
            raise Unavailable(
                "webhook.key",
                f"the key of webhook secrets {file} can't be used: {getattr(error, 'strerror', None) or error}",
                remedy="Let the user of the processes read and write it, or set ANABRANCH_WEBHOOK_KEY.",
            ) from error
        return cls(key)

    def seal(self, endpoint: UUID, secret: str) -> bytes:
        """A secret as it is stored."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), endpoint.bytes)

    def unseal(self, endpoint: UUID, sealed: bytes) -> str:
        """The secret; Unavailable if it was sealed by another key or for another endpoint."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], endpoint.bytes).decode()
        except InvalidTag:
            raise Unavailable(
                "webhook.key",
                "the secret of an endpoint was sealed with another key",
                remedy="Give all processes the same ANABRANCH_WEBHOOK_KEY, or rotate the secret.",
            ) from None

    def identify(self, facts: Json) -> UUID:
        """An id that follows from facts, some of them secret."""
        return UUID(bytes=hmac.digest(self._key, b"callback:" + canonical(facts).encode(), "sha256")[:16])

    def derive(self, facts: Json) -> bytes:
        """A secret that follows from facts: the same ones have the same secret."""
        return hmac.digest(self._key, b"secret:" + canonical(facts).encode(), "sha256")
