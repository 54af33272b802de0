"""What an operator sets about the issuer of tokens."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from anabranch.access import PLATFORM_PATTERN, is_loopback
from anabranch.enums import Scope
from anabranch.strict_model import StrictModel

__all__ = ["OidcSettings"]

# A shared secret would let everybody who verifies tokens also make them.
Algorithm = Literal["RS256", "PS256", "ES256", "EdDSA"]


class OidcSettings(StrictModel, hide_input_in_errors=True):
    """The issuer whose tokens are accepted beside keys, and what the claims of a token mean here."""

    issuer: str | None = Field(None, description="The URL of the issuer, as its tokens have it in `iss`.")
    audience: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="The audiences of tokens for this API, separated by commas; a token names one of them in `aud`."
    )
    scope_claims: Annotated[tuple[str, ...], NoDecode] = Field(
        ("roles", "scp", "scope", "realm_access.roles"),
        min_length=1,
        description="The claims whose values give the scope; a dot leads into an object. The highest scope counts.",
    )
    scopes: Annotated[Mapping[str, Scope], NoDecode] = Field(
        {f"anabranch.{scope}": scope for scope in Scope},
        min_length=1,
        description="Which scope a value of these claims gives, as VALUE=SCOPE, separated by commas.",
    )
    subject_claim: str = Field("sub", min_length=1, description="The claim that names who acts; it must never change.")
    platform_claim: str | None = Field(
        None, description="The claim that gives the platform; without it all tokens belong to `default`."
    )
    platforms: Annotated[Mapping[str, str], NoDecode] = Field(
        {},
        description="Which platform a value of that claim gives, as VALUE=PLATFORM, separated by commas; "
        "by default the value itself.",
    )
    algorithms: Annotated[tuple[Algorithm, ...], NoDecode] = Field(
        ("RS256", "PS256", "ES256", "EdDSA"), min_length=1, description="The algorithms that may sign tokens."
    )
    leeway_seconds: float = Field(30, ge=0, le=300, description="How far the clocks of issuer and API may differ.")

    @field_validator("audience", "scope_claims", "algorithms", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:  # raw input of any type
        return _list_parts(value) if isinstance(value, str) else value

    @field_validator("scopes", "platforms", mode="before")
    @classmethod
    def _split_pairs(cls, value: Any) -> Any:  # raw input of any type
        if not isinstance(value, str):
            return value
        pairs = [part.rpartition("=") for part in _list_parts(value)]
        if any(not (left and right) for left, _, right in pairs):
            raise ValueError("write VALUE=SCOPE or VALUE=PLATFORM, separated by commas")
        return {left.strip(): right.strip() for left, _, right in pairs}

    @field_validator("issuer", mode="after")
    @classmethod
    def _check_issuer(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError("the URL of an issuer has no user, query or fragment")
        if not parts.hostname or not (
            parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
        ):
            raise ValueError("the URL of an issuer begins with https://; http:// is for one on loopback")
        return url

    @field_validator("platforms", mode="after")
    @classmethod
    def _check_platforms(cls, given: Mapping[str, str]) -> Mapping[str, str]:
        for platform in given.values():
            if not PLATFORM_PATTERN.fullmatch(platform):
                raise ValueError(f"{platform!r} is not the id of a platform")
        return given

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.issuer and not self.audience:
            raise ValueError("the issuer signs tokens for others, too: set the audience, by which ours are known")
        if self.platforms and not self.platform_claim:
            raise ValueError("platforms are those of a claim: set platform_claim")
        return self


def _list_parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
