"""Endpoints of webhooks, and the deliveries to them."""

from collections.abc import AsyncIterator, Iterator, Sequence

from anabranch.client.paths import any_segment
from anabranch.client.requests import AsyncRequests, Requests
from anabranch.contract.answer import Page
from anabranch.contract.webhooks import Delivery, DeliveryDetail, NewWebhook, Replayed, Webhook

__all__ = ["AsyncWebhooks", "Webhooks"]

ROOT = "/api/webhooks"


class Webhooks(Requests):
    """Requests about webhooks."""

    def add(
        self,
        url: str,
        events: Sequence[str] | None = None,
        *,
        cloudevents: bool | None = None,
        description: str | None = None,
        secret: str | None = None,
        timeout_seconds: int | None = None,
        retries: int | None = None,
        platform: str | None = None,
    ) -> NewWebhook:
        """Add an endpoint; its secret is returned only once."""
        given = _given(
            url=url, events=events, format=_format(cloudevents), description=description, secret=secret,
            timeout_seconds=timeout_seconds, retries=retries, platform=platform,
        )  # fmt: skip
        return self._send(NewWebhook, "POST", ROOT, given)

    def list(self) -> Iterator[Webhook]:
        """Endpoints, the newest first, a page at a time."""
        return self._all(lambda before: self._get(Page[Webhook], ROOT, before=before))

    def show(self, endpoint: str) -> Webhook:
        """An endpoint."""
        return self._get(Webhook, _path(endpoint))

    def change(
        self,
        endpoint: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        cloudevents: bool | None = None,
        description: str | None = None,
        active: bool | None = None,
        timeout_seconds: int | None = None,
        retries: int | None = None,
    ) -> Webhook:
        """Change what is given of an endpoint."""
        given = _given(
            url=url, events=events, format=_format(cloudevents), description=description, active=active,
            timeout_seconds=timeout_seconds, retries=retries,
        )  # fmt: skip
        return self._send(Webhook, "PATCH", _path(endpoint), given)

    def remove(self, endpoint: str) -> Webhook:
        """Remove an endpoint with its deliveries, and return what it was."""
        return self._send(Webhook, "DELETE", _path(endpoint))

    def rotate(self, endpoint: str, *, secret: str | None = None, keep_hours: int | None = None) -> NewWebhook:
        """Replace the secret; messages are signed with both for a while. The new one is returned only once."""
        given = _given(secret=secret, keep_hours=keep_hours)
        return self._send(NewWebhook, "POST", f"{_path(endpoint)}/rotate", given)

    def test(self, endpoint: str) -> Delivery:
        """Send a test message; `delivery` shows how it went."""
        return self._send(Delivery, "POST", f"{_path(endpoint)}/test")

    def deliveries(
        self,
        *,
        endpoint: str | None = None,
        subject: str | None = None,
        event: str | None = None,
        status: str | None = None,
    ) -> Iterator[Delivery]:
        """Deliveries, the newest first, a page at a time; the status `dead` lists the dead letters."""
        wanted = {"endpoint": endpoint, "subject": subject, "event": event, "status": status}
        return self._all(lambda before: self._get(Page[Delivery], f"{ROOT}/deliveries", before=before, **wanted))

    def delivery(self, delivery: str) -> DeliveryDetail:
        """A delivery with its calls."""
        return self._get(DeliveryDetail, f"{ROOT}/deliveries/{any_segment(delivery)}")

    def replay(self, delivery: str) -> DeliveryDetail:
        """Deliver a message again."""
        return self._send(DeliveryDetail, "POST", f"{ROOT}/deliveries/{any_segment(delivery)}/replay")

    def replay_dead(
        self,
        *,
        endpoint: str | None = None,
        subject: str | None = None,
        event: str | None = None,
        limit: int | None = None,
    ) -> Replayed:
        """Replay dead letters, the oldest first; without a choice, all of them."""
        given = _given(endpoint=endpoint, subject=subject, event=event, limit=limit)
        return self._send(Replayed, "POST", f"{ROOT}/deliveries/replay", given)


class AsyncWebhooks(AsyncRequests):
    """Requests about webhooks."""

    async def add(
        self,
        url: str,
        events: Sequence[str] | None = None,
        *,
        cloudevents: bool | None = None,
        description: str | None = None,
        secret: str | None = None,
        timeout_seconds: int | None = None,
        retries: int | None = None,
        platform: str | None = None,
    ) -> NewWebhook:
        """Add an endpoint; its secret is returned only once."""
        given = _given(
            url=url, events=events, format=_format(cloudevents), description=description, secret=secret,
            timeout_seconds=timeout_seconds, retries=retries, platform=platform,
        )  # fmt: skip
        return await self._send(NewWebhook, "POST", ROOT, given)

    def list(self) -> AsyncIterator[Webhook]:
        """Endpoints, the newest first, a page at a time."""
        return self._all(lambda before: self._get(Page[Webhook], ROOT, before=before))

    async def show(self, endpoint: str) -> Webhook:
        """An endpoint."""
        return await self._get(Webhook, _path(endpoint))

    async def change(
        self,
        endpoint: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        cloudevents: bool | None = None,
        description: str | None = None,
        active: bool | None = None,
        timeout_seconds: int | None = None,
        retries: int | None = None,
    ) -> Webhook:
        """Change what is given of an endpoint."""
        given = _given(
            url=url, events=events, format=_format(cloudevents), description=description, active=active,
            timeout_seconds=timeout_seconds, retries=retries,
        )  # fmt: skip
        return await self._send(Webhook, "PATCH", _path(endpoint), given)

    async def remove(self, endpoint: str) -> Webhook:
        """Remove an endpoint with its deliveries, and return what it was."""
        return await self._send(Webhook, "DELETE", _path(endpoint))

    async def rotate(self, endpoint: str, *, secret: str | None = None, keep_hours: int | None = None) -> NewWebhook:
        """Replace the secret; messages are signed with both for a while. The new one is returned only once."""
        given = _given(secret=secret, keep_hours=keep_hours)
        return await self._send(NewWebhook, "POST", f"{_path(endpoint)}/rotate", given)

    async def test(self, endpoint: str) -> Delivery:
        """Send a test message; `delivery` shows how it went."""
        return await self._send(Delivery, "POST", f"{_path(endpoint)}/test")

    def deliveries(
        self,
        *,
        endpoint: str | None = None,
        subject: str | None = None,
        event: str | None = None,
        status: str | None = None,
    ) -> AsyncIterator[Delivery]:
        """Deliveries, the newest first, a page at a time; the status `dead` lists the dead letters."""
        wanted = {"endpoint": endpoint, "subject": subject, "event": event, "status": status}
        return self._all(lambda before: self._get(Page[Delivery], f"{ROOT}/deliveries", before=before, **wanted))

    async def delivery(self, delivery: str) -> DeliveryDetail:
        """A delivery with its calls."""
        return await self._get(DeliveryDetail, f"{ROOT}/deliveries/{any_segment(delivery)}")

    async def replay(self, delivery: str) -> DeliveryDetail:
        """Deliver a message again."""
        return await self._send(DeliveryDetail, "POST", f"{ROOT}/deliveries/{any_segment(delivery)}/replay")

    async def replay_dead(
        self,
        *,
        endpoint: str | None = None,
        subject: str | None = None,
        event: str | None = None,
        limit: int | None = None,
    ) -> Replayed:
        """Replay dead letters, the oldest first; without a choice, all of them."""
        given = _given(endpoint=endpoint, subject=subject, event=event, limit=limit)
        return await self._send(Replayed, "POST", f"{ROOT}/deliveries/replay", given)


def _format(cloudevents: bool | None) -> str | None:
    return None if cloudevents is None else "cloudevents" if cloudevents else "standard"


def _path(endpoint: str) -> str:
    return f"{ROOT}/{any_segment(endpoint)}"


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
