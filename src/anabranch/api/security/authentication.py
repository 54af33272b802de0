"""Authenticates a request by its API key, or by a token of the configured issuer."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

import structlog

from anabranch.access import Credential, KnownKey, NotAuthenticated, Principal
from anabranch.adapters.postgres.store.keys import PostgresKeys
from anabranch.api.security.limits import Limits
from anabranch.api.security.rates import network_of
from anabranch.errors import AnabranchError, NotFound, Unavailable
from anabranch.oidc.tokens import Tokens

__all__ = ["Authenticator"]

log = structlog.get_logger()

LOOKUPS_AT_ONCE = 4  # of an address
REMEDY = "Send a key as `Authorization: Bearer anb_…`; commands send that of ANABRANCH_API_KEY."


class Authenticator:
    """Caches keys for a second, so that a busy caller does not cost a query for each request.

    A key that is revoked or expires is refused within that second by every process.
    """

    FRESH_SECONDS = 1.0

    def __init__(self, keys: Callable[[], PostgresKeys], limits: Limits, tokens: Tokens | None = None) -> None:
        self._keys = keys
        self._limits = limits
        self._tokens = tokens
        self._known: dict[tuple[str, bytes], tuple[float, KnownKey]] = {}
        self._platforms: dict[str, float] = {}  # those that exist, and when that was looked up
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def authenticate(self, headers: Sequence[str], address: str) -> Principal:
        """The principal of the `Authorization` headers; errors do not reveal why a key is wrong.

        An address that has sent too many wrong keys is refused for a while.
        """
        text = _read(headers)
        credential = Credential.parse(text)
        if credential is None:
            if self._tokens and (principal := await self._tokens.authenticate(text)):
                await self._require_platform(principal.platform)
                return principal
            self._limits.check_guesses(address, b"")
            raise self._refuse(address)
        known = self._remember(credential) or await self._look_up(credential, address)
        self._limits.note_right(credential.digest)
        if known.revoked:
            raise NotAuthenticated("auth.revoked", "this key was revoked")
        if known.expired:
            raise NotAuthenticated("auth.expired", "this key has expired")
        if known.unnoted:
            await self._note(credential.key_id)
        elif (credential.key_id, credential.digest) not in self._known:
            self._known[credential.key_id, credential.digest] = time.monotonic(), known
        return known.principal(credential.key_id)

    async def _require_platform(self, name: str) -> None:
        """Refuse a token that names a platform which nobody has made: those of keys are checked when they are made."""
        if time.monotonic() - self._platforms.get(name, -math.inf) < self.FRESH_SECONDS:
            return
        try:
            await self._keys().require_platform(name)
        except NotFound as error:
            raise AnabranchError(
                "auth.unmapped",
                f"the token is for platform {name!r}, and there is none of that name",
                remedy=f"The operator makes it with `anabranch platforms save {name} FILE`, or maps the claim by "
                "ANABRANCH_OIDC__PLATFORMS.",
            ) from error
        self._platforms[name] = time.monotonic()

    async def _look_up(self, credential: Credential, address: str) -> KnownKey:
        # Few at a time: of a flood of wrong keys, most are refused before they reach the database.
        async with self._turns.setdefault(network_of(address), asyncio.Semaphore(LOOKUPS_AT_ONCE)):
            self._limits.check_guesses(address, credential.digest)
            known = self._remember(credential) or await self._find(credential.key_id)
            if known is None or not known.matches(credential):
                raise self._refuse(address)
            return known

    def _refuse(self, address: str) -> NotAuthenticated:
        # Unknown or wrong: the answer is the same, so nobody learns which keys there are.
        self._limits.note_wrong(address)
        return NotAuthenticated("auth.invalid", "this is no key or token of this API", remedy=REMEDY)

    def _remember(self, credential: Credential) -> KnownKey | None:
        # By the hash of the secret: a wrong one is looked up each time, and takes as long as an unknown key.
        at, known = self._known.get((credential.key_id, credential.digest), (0.0, None))
        if known is None or time.monotonic() - at < self.FRESH_SECONDS:
            return known
        del self._known[credential.key_id, credential.digest]
        return None

    async def _find(self, key_id: str) -> KnownKey | None:
        try:
            return await self._keys().find(key_id)
        except AnabranchError as error:
            log.warning("keys.unreadable", code=error.code, reason=error.message)
            remedy = "Try again; the operator of the API finds the cause with `anabranch doctor`."
            raise Unavailable("auth.unavailable", "keys can't be looked up now", remedy=remedy) from error

    async def _note(self, key_id: str) -> None:
        try:
            await self._keys().note_use(key_id)
        except AnabranchError as error:  # when it was last used is worth no refusal
            log.warning("key.not_noted", key=key_id, reason=error.message)


def _read(headers: Sequence[str]) -> str:
    """What the caller sent as its key or token; nothing that could be one if it was sent otherwise."""
    if not headers:
        raise NotAuthenticated("auth.missing", "this API asks for a key", remedy=REMEDY)
    scheme, _, text = headers[0].partition(" ")
    return text.strip() if len(headers) == 1 and scheme.lower() == "bearer" else ""
