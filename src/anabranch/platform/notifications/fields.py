"""Fields of requests for notifications, which endpoints, callbacks of jobs and orders share."""

from typing import Annotated

from pydantic import Field, SecretStr

from anabranch.outbound.url import MAX_URL_CHARACTERS
from anabranch.platform.notifications.webhooks import MAX_RETRIES, MAX_TIMEOUT_SECONDS
from anabranch.webhook_signature import MAX_SECRET_CHARACTERS, MIN_SECRET_CHARACTERS

__all__ = ["Retries", "Secret", "Timeout", "Url"]

Url = Annotated[
    str, Field(min_length=1, max_length=MAX_URL_CHARACTERS, description="A public address, http:// or https://.")
]
Secret = Annotated[
    SecretStr,
    Field(
        min_length=MIN_SECRET_CHARACTERS,
        max_length=MAX_SECRET_CHARACTERS,
        description="What signs the messages: base64 after `whsec_`, or any text.",
    ),
]
Timeout = Annotated[
    int, Field(ge=1, le=MAX_TIMEOUT_SECONDS, strict=True, description="The deadline of a call, in seconds.")
]
Retries = Annotated[
    int,
    Field(ge=0, le=MAX_RETRIES, strict=True, description="How many calls follow one that failed, over about a day."),
]
