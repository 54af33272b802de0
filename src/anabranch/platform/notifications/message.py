"""The content of a message, and its headers, as an endpoint receives them."""

import time
from collections.abc import Sequence
from datetime import UTC

from anabranch.canonical import JsonObject, encode
from anabranch.codes import with_remedy
from anabranch.platform.notifications.ports import DueDelivery
from anabranch.webhook_signature import sign

__all__ = ["VERSION", "build_body", "build_headers"]

VERSION = 1
CONTENT_TYPES = {"standard": "application/json", "cloudevents": "application/cloudevents+json; charset=utf-8"}


def build_body(due: DueDelivery, base_url: str) -> bytes:
    """What is sent; links begin with the public URL."""
    at = due.made_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    own: JsonObject = {"version": VERSION, "type": due.event, "timestamp": at, "correlation_id": due.correlation_id}
    said = own | due.data | own
    if isinstance(link := said.get("result_url"), str) and link.startswith("/"):
        said["result_url"] = base_url + link
    if isinstance(error := said.get("error"), dict):
        said["error"] = with_remedy(error, of_release=due.event.startswith("release."))
    if due.format == "standard":
        return encode(said).encode()
    event = {
        "specversion": "1.0",
        "id": str(due.message),
        "source": base_url,
        "type": f"anabranch.{due.event}",
        "subject": due.subject,
        "time": at,
        "datacontenttype": "application/json",
        "data": said,
    }
    return encode(event).encode()


def build_headers(
    due: DueDelivery, body: bytes, secrets: Sequence[str], traceparent: str | None = None
) -> dict[str, str]:
    """The headers of a call: signed with each of the secrets, at this moment; with the trace that it belongs to."""
    message, timestamp = str(due.message), int(time.time())
    return {
        "Content-Type": CONTENT_TYPES[due.format],
        "User-Agent": "anabranch-webhooks",
        "X-Correlation-ID": due.correlation_id,
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(sign(secret, message, timestamp, body) for secret in secrets),
        **({"traceparent": traceparent} if traceparent else {}),
    }
