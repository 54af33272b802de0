"""Requests and responses about keys."""

from datetime import datetime, timedelta
from typing import Any, Self

from pydantic import ConfigDict, Field

from anabranch.access import LOCAL, Credential, Key, KeyRequest, Scope
from anabranch.api.requests import Input, Name
from anabranch.api.schemas import View

__all__ = ["KeyView", "KeysQuery", "MakeKeyRequest", "NewKeyView"]


class MakeKeyRequest(Input):
    """A key to make."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ci", "scope": "submit", "owner": "acme"}]})
    name: Name = Field(description="For people: what or who uses it.")
    scope: Scope = Field(description="What it may do; each includes those before it.")
    owner: Name = Field(LOCAL.owner, description="Whose jobs it submits; keys of one owner share them.")
    expires_in_seconds: int | None = Field(
        None, ge=1, le=3650 * 86_400, strict=True, description="Without it, the key lasts until it is revoked."
    )

    def wanted(self) -> KeyRequest:
        """The same for whoever makes keys."""
        seconds = self.expires_in_seconds
        return KeyRequest(self.name, self.scope, self.owner, None if seconds is None else timedelta(seconds=seconds))


class KeysQuery(Input):
    """Which keys to list."""

    limit: int = Field(100, ge=1, le=1000, description="How many at most.")
    before: int | None = Field(None, ge=1, lt=2**63, description="The `next` of the page before.")


class KeyView(View):
    """A key, without its secret."""

    id: str
    name: str
    owner: str
    scope: Scope
    state: str = Field(description="`active`, `expired` or `revoked`.")
    made_at: datetime
    made_by: str
    expires_at: datetime | None
    used_at: datetime | None = Field(description="To the minute.")
    revoked_at: datetime | None
    revoked_by: str | None

    @classmethod
    def of(cls, key: Key) -> Self:
        """The view of a key."""
        return cls(**_fields(key))


class NewKeyView(KeyView):
    """A key that was just made."""

    model_config = ConfigDict(hide_input_in_errors=True)
    key: str = Field(description="What its holder sends; it is shown only here.")

    @classmethod
    def with_secret(cls, key: Key, credential: Credential) -> Self:
        """The view of a key with what its holder sends."""
        return cls(**_fields(key), key=credential.text)


def _fields(key: Key) -> dict[str, Any]:  # the fields of KeyView
    return {name: getattr(key, "key_id" if name == "id" else name) for name in KeyView.model_fields}
