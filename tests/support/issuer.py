"""An OpenID Connect issuer on loopback: discovery, its public keys, and tokens signed by a library that is not ours."""

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from tests.support.receiver import Received, Receiver, answering, open_receiver

__all__ = ["AUDIENCE", "LocalIssuer", "make_signing_key", "open_issuer", "sign", "sign_by_secret"]

AUDIENCE = "api://anabranch"
DISCOVERY = "/realms/maps/.well-known/openid-configuration"
KEYS = "/realms/maps/keys"


@cache
def make_signing_key(algorithm: str = "RS256", number: int = 0) -> Key:
    """A key pair; each number has its own."""
    if algorithm == "ES256":
        return ECKey.generate_key("P-256")
    if algorithm == "EdDSA":
        return OKPKey.generate_key("Ed25519")
    return RSAKey.generate_key(2048)


def sign(
    claims: Mapping[str, Any] | bytes,
    key: Key,
    *,
    algorithm: str = "RS256",
    **header: Any,  # more of it, whether an issuer would write it or not
) -> str:
    """A token as anybody could make it who has the key."""
    text = _join({"alg": algorithm, "typ": "JWT", **header}, claims)
    return f"{text}.{_encode(JWSRegistry.algorithms[algorithm].sign(text.encode(), key))}"


def sign_by_secret(claims: Mapping[str, Any], secret: bytes, **header: Any) -> str:
    """A token of HS256 by any secret; libraries refuse to take a public key for one."""
    text = _join({"alg": "HS256", **header}, claims)
    return f"{text}.{_encode(hmac.digest(secret, text.encode(), 'sha256'))}"


def _join(header: Mapping[str, Any], claims: Mapping[str, Any] | bytes) -> str:
    payload = claims if isinstance(claims, bytes) else json.dumps(claims, separators=(",", ":")).encode()
    return f"{_encode(json.dumps(header, separators=(',', ':')).encode())}.{_encode(payload)}"


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class LocalIssuer:
    """What it publishes, and how often it was asked."""

    receiver: Receiver
    keys: dict[str, Key] = field(default_factory=lambda: {"first": make_signing_key()})
    published: dict[str, Any] = field(default_factory=dict)  # of its discovery document, beside what is usual
    described: dict[str, dict[str, Any]] = field(default_factory=dict)  # what it says of a key besides

    @property
    def url(self) -> str:
        return self.receiver.url("/realms/maps")

    @property
    def settings(self) -> dict[str, Any]:
        return {"issuer": self.url, "audience": AUDIENCE}

    @property
    def asked(self) -> int:
        """How often its keys were fetched."""
        return sum(request.path == KEYS for request in self.receiver.requests)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Those of a token that may read; a claim that is None is left out."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "nbf": now, "exp": now + 600}
        return {n: value for n, value in {**usual, "roles": ["anabranch.read"], **changes}.items() if value is not None}

    def sign(self, *, kid: str = "first", algorithm: str = "RS256", **changes: Any) -> str:
        """A token of its own."""
        return sign(self.claims(**changes), self.keys[kid], algorithm=algorithm, kid=kid)

    async def answer(self, request: Received, writer: Any) -> None:  # a stream
        documents = {
            DISCOVERY: {"issuer": self.url, "jwks_uri": self.receiver.url(KEYS), **self.published},
            KEYS: {
                "keys": [
                    {**key.as_dict(private=False), "kid": kid, "use": "sig", **self.described.get(kid, {})}
                    for kid, key in self.keys.items()
                ]
            },
        }
        found = documents.get(request.path)
        body = json.dumps(found).encode()
        await answering(200 if found else 404, "Content-Type: application/json", body=body)(request, writer)


@asynccontextmanager
async def open_issuer() -> AsyncIterator[LocalIssuer]:
    """An issuer in this loop."""
    async with open_receiver() as receiver:
        issuer = LocalIssuer(receiver)
        receiver.behave = issuer.answer
        yield issuer
