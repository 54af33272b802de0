"""Endpoints and callbacks: their addresses are checked, and their secrets sealed, before a store sees them."""

import secrets as random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from uuid import UUID

from anabranch.canonical import JsonObject
from anabranch.contract.answer import build
from anabranch.contract.webhooks import Format, NewWebhook, Webhook
from anabranch.outbound.url import Target, read_url
from anabranch.platform.action_by import ActionBy
from anabranch.platform.notifications.ports import EndpointChange, WebhookStore
from anabranch.sealing import Sealer
from anabranch.webhook_signature import make_secret, read_secret

__all__ = ["DEFAULT_TIMEOUT_SECONDS", "MAX_ENDPOINTS", "MAX_RETRIES", "MAX_TIMEOUT_SECONDS", "Callback", "Webhooks"]

DEFAULT_TIMEOUT_SECONDS = 15
MAX_TIMEOUT_SECONDS = 60
MAX_RETRIES = 10
MAX_ENDPOINTS = 100  # of a platform


@dataclass(frozen=True)
class Callback:
    """Who is called when a job ends, or something happens to a release."""

    url: str
    secret: str
    events: Sequence[str] = ("job.*",)
    format: Format = "standard"
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    retries: int = MAX_RETRIES

    def __repr__(self) -> str:
        return f"Callback({self.url})"


class Webhooks:
    """The endpoints of platforms; `hosts` are those that the operator exempts from the rules of public addresses."""

    def __init__(self, store: WebhookStore, key_file: Path, hosts: Collection[str]) -> None:
        """The key is read or made when it is first needed."""
        self.store = store
        self._key_file = key_file
        self._hosts = hosts

    @cached_property
    def _sealer(self) -> Sealer:
        return Sealer.open(self._key_file)

    async def exempt_hosts(self, platform: str) -> set[str]:
        """The hosts that a platform may be called at although they are private."""
        return {*self._hosts, *await self.store.callback_hosts(platform)}

    async def add(self, platform: str, wanted: EndpointChange, secret: str | None, by: ActionBy) -> NewWebhook:
        """Add an endpoint, with a secret of the caller or a new one; Conflict if the platform has enough."""
        target = read_url(wanted.url or "", await self.exempt_hosts(platform))
        endpoint, secret = UUID(bytes=random.token_bytes(16), version=4), secret or make_secret()
        read_secret(secret)
        known = replace(wanted, authority=target.authority)
        sealed = self._sealer.seal(endpoint, secret)
        made = await self.store.make(endpoint, platform, known, sealed, by, most=MAX_ENDPOINTS)
        return build(NewWebhook, made, secret=secret)

    async def change(self, endpoint: UUID, change: EndpointChange, by: ActionBy) -> Webhook:
        """Change an endpoint."""
        if change.url is not None:
            owner = (await self.store.get(by.owner, endpoint)).platform
            target = read_url(change.url, await self.exempt_hosts(owner))
            change = replace(change, authority=target.authority)
        return await self.store.change(endpoint, change, by)

    async def rotate(self, endpoint: UUID, secret: str | None, keep: timedelta, by: ActionBy) -> NewWebhook:
        """Replace the secret; the former one is valid for a while."""
        secret = secret or make_secret()
        read_secret(secret)
        changed = await self.store.rotate(endpoint, self._sealer.seal(endpoint, secret), keep, by)
        return build(NewWebhook, changed, secret=secret)

    def derive_secret(self, platform: str, url: str) -> str:
        """The secret of a platform's callbacks to a URL, where none was given: it is the same each time."""
        return make_secret(self._sealer.derive({"platform": platform, "url": url}))

    def seal(self, platform: str, callback: Callback, target: Target) -> JsonObject:
        """A callback as it is stored with a job. The same callback has the same id, so that it is stored once."""
        read_secret(callback.secret)
        shown: JsonObject = {
            "url": callback.url,
            "authority": target.authority,
            "events": list(callback.events),
            "format": callback.format,
            "timeout_seconds": callback.timeout_seconds,
            "retries": callback.retries,
        }
        endpoint = self._sealer.identify({**shown, "platform": platform, "secret": callback.secret})
        return {**shown, "id": str(endpoint), "secret": self._sealer.seal(endpoint, callback.secret).hex()}
