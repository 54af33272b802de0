"""The API key that a stack creates for the commands of its own home."""

import asyncio
from datetime import timedelta
from threading import Event, Lock, Thread

import structlog

from anabranch.access import Credential, KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.embedded.home import Home
from anabranch.errors import AnabranchError

__all__ = ["HomeKey"]

log = structlog.get_logger()

CREATED_BY = "the stack"


class HomeKey:
    """An admin key in the home while the stack runs, if callers need keys.

    It is valid for a day and replaced twice a day, so a key that a killed stack left soon expires.
    """

    LIFETIME = timedelta(days=1)
    RENEWAL_INTERVAL = timedelta(hours=12)
    RETRY_INTERVAL = timedelta(minutes=1)

    def __init__(self, home: Home, *, needed: bool) -> None:
        """No key is created yet."""
        self._home = home
        self._needed = needed
        self._url = ""
        self._ended = Event()
        self._lock = Lock()

    def begin(self, url: str) -> None:
        """Create the key, and revoke one that a killed stack left."""
        self._url = url
        if self._needed:
            asyncio.run(self._replace())
            Thread(target=self._renew, daemon=True).start()
        elif self._home.read_key():
            self.end()

    def end(self) -> None:
        """Revoke the key; if the stack never began, the next one revokes a key that was left."""
        self._ended.set()
        with self._lock:
            if self._url and (left := self._home.read_key()):
                self._home.clear_key()
                asyncio.run(self._revoke(left))

    def _renew(self) -> None:
        wait = self.RENEWAL_INTERVAL
        while not self._ended.wait(wait.total_seconds()):
            with self._lock:
                if self._ended.is_set():
                    return
                try:
                    asyncio.run(self._replace())
                    wait = self.RENEWAL_INTERVAL
                except AnabranchError as error:  # the current key is valid for another half day
                    log.warning("key.not_renewed", reason=error.message)
                    wait = self.RETRY_INTERVAL

    async def _replace(self) -> None:
        former = self._home.read_key()
        async with open_keys(self._url) as keys:
            wanted = KeyRequest("commands of the stack's home", Scope.ADMIN, lasts=self.LIFETIME)
            _, credential = await keys.make(wanted, CREATED_BY)
        self._home.write_key(credential.text)
        if former:
            await self._revoke(former)

    async def _revoke(self, text: str) -> None:
        credential = Credential.parse(text)
        if credential is None:
            return
        try:
            async with open_keys(self._url) as keys:
                await keys.revoke(credential.key_id, CREATED_BY)
        except AnabranchError as error:  # it may belong to another database; otherwise it expires by itself
            log.warning("key.not_revoked", key=credential.key_id, reason=error.message)
