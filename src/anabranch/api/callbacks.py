"""Callbacks of jobs, where they enter: they leave the parameters, and their secrets are sealed (S5)."""

from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import TypeAdapter, ValidationError

from anabranch.api.answers.errors import InvalidRequest, Mistake
from anabranch.api.requests.webhooks import CallbackRequest
from anabranch.canonical import Json, JsonObject
from anabranch.errors import InputError
from anabranch.gateway import Gateway
from anabranch.outbound.url import Target, read_url

__all__ = ["check_callbacks", "move_callbacks", "read_callbacks", "seal_callbacks"]

_Callbacks = TypeAdapter(list[CallbackRequest])
# Parameters of any job that are none of its workflow, and what they are in a callback.
PARAMETERS = {
    "webhook_url": "url",
    "webhook_secret": "secret",
    "webhook_retry_count": "retries",
    "webhook_timeout_seconds": "timeout_seconds",
}


def move_callbacks(body: Mapping[str, Json]) -> dict[str, Json]:
    """The body of a submission with a callback in the place of its `webhook_*` parameters."""
    parameters = body.get("parameters")
    if not isinstance(parameters, dict) or PARAMETERS.keys().isdisjoint(parameters):
        return dict(body)
    callback = {PARAMETERS[name]: value for name, value in parameters.items() if name in PARAMETERS}
    rest = {name: value for name, value in parameters.items() if name not in PARAMETERS}
    others = body.get("callbacks") or []
    given = [*others, callback] if isinstance(others, list) else others
    return {**body, "parameters": rest, "callbacks": cast(Json, given)}


def read_callbacks(body: Mapping[str, Json]) -> list[CallbackRequest]:
    """The callbacks of a body that `move_callbacks` made of parameters."""
    try:
        return _Callbacks.validate_python(body.get("callbacks", []))
    except ValidationError as error:
        raise InvalidRequest.of(error, "body", "callbacks") from error


async def seal_callbacks(
    gateway: Gateway, platform: str, wanted: Sequence[CallbackRequest] | None
) -> tuple[JsonObject, ...]:
    """Callbacks as they are stored with a job; InvalidRequest if one may not be called."""
    targets = await check_callbacks(gateway, platform, wanted)
    callbacks = [given.callback for given in wanted or ()]
    return tuple(gateway.webhooks.seal(platform, *pair) for pair in zip(callbacks, targets, strict=True))


async def check_callbacks(gateway: Gateway, platform: str, wanted: Sequence[CallbackRequest] | None) -> list[Target]:
    """Where the callbacks lead; InvalidRequest if one of them may not be called."""
    if not wanted:
        return []
    hosts, found, mistakes = await gateway.webhooks.exempt_hosts(platform), [], []
    for place, given in enumerate(wanted):
        try:
            found.append(read_url(given.url, hosts))
        except InputError as error:
            mistakes.append(Mistake(where=f"body.callbacks.{place}.url", detail=error.message))
    if mistakes:
        raise InvalidRequest(mistakes)
    return found
