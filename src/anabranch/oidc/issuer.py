"""The public keys of an issuer: fetched by its discovery document, cached, and refreshed."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import structlog
from jwt import PyJWK
from jwt.exceptions import PyJWTError
from pydantic import BaseModel, Field, ValidationError

from anabranch.canonical import decode
from anabranch.errors import AnabranchError, Unavailable
from anabranch.outbound.get import get
from anabranch.outbound.url import Target, read_url

__all__ = ["Issuer", "fetch_keys"]

log = structlog.get_logger()

FRESH_SECONDS = 600.0  # a key that the issuer withdraws is refused after that
MAX_STALE_SECONDS = 86_400.0
RETRY_SECONDS = 10.0  # between two fetches, whatever tokens say
FETCH_SECONDS = 5.0
MAX_BYTES = 256 * 1024
MAX_KEYS = 100
REMEDY = "Check ANABRANCH_OIDC__ISSUER, and that this machine reaches the issuer."
CURVES = {"P-256": "ES256", "Ed25519": "EdDSA"}

KeyName = tuple[str, str]
Document = TypeVar("Document", bound=BaseModel)


class Discovery(BaseModel):
    """What we read of the discovery document of an issuer."""

    issuer: str
    jwks_uri: str


class PublishedKey(BaseModel):
    """What we read of a key: the public parts of RSA, EC and OKP keys."""

    kty: str
    kid: str | None = None
    use: str | None = None
    alg: str | None = None
    crv: str | None = None
    n: str | None = Field(None, max_length=2800)  # 16,384 bits
    e: str | None = Field(None, max_length=100)
    x: str | None = Field(None, max_length=100)
    y: str | None = Field(None, max_length=100)

    def list_algorithms(self) -> Collection[str]:
        """What it may verify: what it says itself, or else all that is possible."""
        possible = ("RS256", "PS256") if self.kty == "RSA" else (CURVES.get(self.crv or "", ""),)
        return [name for name in possible if self.use in (None, "sig") and self.alg in (None, name)]


class PublishedKeys(BaseModel):
    """The keys of an issuer (RFC 7517)."""

    keys: list[PublishedKey] = Field(max_length=MAX_KEYS)


async def fetch_keys(issuer: str, algorithms: Collection[str]) -> Mapping[KeyName, PyJWK]:
    """The keys that the issuer publishes now, by id and algorithm."""
    host = urlsplit(issuer).hostname or ""  # the operator's choice, so it may be private
    place = _read_target(f"{issuer.rstrip('/')}/.well-known/openid-configuration", host)
    found = await _read(Discovery, place)
    if found.issuer != issuer:
        raise _unusable(f"{issuer} says that its issuer is {found.issuer[:200]!r}")
    keys_place = _read_target(found.jwks_uri, place.authority.partition("://")[2])
    if keys_place.scheme != "https" and keys_place.authority != place.authority:
        raise _unusable(f"its jwks_uri leads to {keys_place.authority}, and must begin with https://")
    published = await _read(PublishedKeys, keys_place)
    return {
        (key.kid, name): usable
        for key in published.keys
        for name in key.list_algorithms()
        if key.kid and name in algorithms and (usable := _load(key, name))
    }


class Issuer:
    """The keys of an issuer, for one process.

    A token that names an unknown key causes a fetch, but tokens can't cause more than one in ten seconds (S7). While
    the issuer can't be reached, the keys that are known go on being used, for a day.
    """

    def __init__(self, url: str, algorithms: Collection[str], now: Callable[[], float] = time.monotonic) -> None:
        """Fetches nothing yet."""
        self._url, self._algorithms, self._now = url, algorithms, now
        self._keys: Mapping[KeyName, PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._problem: AnabranchError | None = None

    async def find(self, kid: str, algorithm: str) -> PyJWK | None:
        """The key of this id, for an algorithm; Unavailable if the issuer could not be asked yet."""
        if self._now() - self._fetched_at >= MAX_STALE_SECONDS:
            self._keys = {}
        found = self._keys.get((kid, algorithm))
        if found is None or self._now() - self._fetched_at >= FRESH_SECONDS:
            self._begin_fetch()
        if found is None and self._fetching:
            await asyncio.wait([self._fetching])  # shared: a caller that leaves ends it for nobody
            found = self._keys.get((kid, algorithm))
        if not self._keys and self._problem:
            raise Unavailable(
                "auth.unavailable",
                "the keys of the issuer can't be fetched now",
                remedy="Try again; the operator of the API finds the cause with `anabranch doctor`.",
            )
        return found

    def find_problem(self) -> AnabranchError | None:
        """Why the last fetch failed, if it did; the next one is begun, so that it is not reported for too long."""
        if self._problem:
            self._begin_fetch()
        return self._problem

    def close(self) -> None:
        """Fetch no more."""
        if self._fetching:
            self._fetching.cancel()

    def _begin_fetch(self) -> None:
        if not self._fetching and self._now() - self._tried_at >= RETRY_SECONDS:
            self._tried_at = self._now()
            self._fetching = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        try:
            self._keys = await fetch_keys(self._url, self._algorithms)
            self._fetched_at, self._problem = self._tried_at, None
        except AnabranchError as error:
            self._problem = error
            log.warning("issuer.unavailable", code=error.code, reason=error.message, known_keys=len(self._keys))
        finally:
            self._fetching = None


async def _read(model: type[Document], target: Target) -> Document:
    try:
        answer = await get(target, {"Accept": "application/json"}, seconds=FETCH_SECONDS, max_bytes=MAX_BYTES)
    except Unavailable as error:
        raise _unusable(f"{target.authority} can't be asked: {error.message}") from error
    if answer.status != 200:
        raise _unusable(f"{target.authority}{target.path} answered {answer.status}")
    try:
        return model.model_validate(decode(answer.body))
    except ValidationError as error:
        wrong = ".".join(map(str, error.errors()[0]["loc"]))
        raise _unusable(f"{target.authority}{target.path} has no usable {wrong}") from error
    except ValueError as error:
        raise _unusable(f"{target.authority}{target.path} is not JSON: {str(error)[:200]}") from error


def _read_target(url: str, exempt: str) -> Target:
    try:
        return read_url(url, (exempt,))
    except AnabranchError as error:
        raise _unusable(error.message) from error


def _load(key: PublishedKey, algorithm: str) -> PyJWK | None:
    """A key that can be used; None for one that is malformed or too short."""
    try:
        loaded = PyJWK(key.model_dump(exclude_none=True), algorithm)
    except PyJWTError:
        return None
    return None if loaded.Algorithm.check_key_length(loaded.key) else loaded


def _unusable(reason: str) -> Unavailable:
    return Unavailable("oidc.issuer", f"the keys of the issuer can't be used: {reason}", remedy=REMEDY)
