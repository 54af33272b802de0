"""Who may do what: scopes, principals, and API keys."""

import hashlib
import hmac
import ipaddress
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from anabranch.enums import DEFAULT_PLATFORM, Scope
from anabranch.errors import AnabranchError, InputError, Kind
from anabranch.redaction import KEY, TOKEN

__all__ = [
    "ANONYMOUS",
    "DEFAULT_PLATFORM",
    "KEY",
    "LOCAL",
    "NAME_PATTERN",
    "PLATFORM_PATTERN",
    "Credential",
    "KeyRequest",
    "KnownKey",
    "NotAuthenticated",
    "Principal",
    "Scope",
    "asks_for_keys",
    "holds_key",
    "is_address",
    "is_loopback",
    "redact",
]

NAME_PATTERN = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
PLATFORM_PATTERN = re.compile(r"[a-z][a-z0-9_-]{0,39}")
MAX_LIFETIME = timedelta(days=3650)


class NotAuthenticated(AnabranchError):
    """The caller is unknown."""

    kind = Kind.NOT_ALLOWED


@dataclass(frozen=True)
class Principal:
    """Who acts, and the platform that owns what comes of it.

    It is known by the id of a key, or by the issuer of a token; without both it is the person at this machine.
    """

    name: str
    platform: str
    scope: Scope
    key_id: str | None = None
    issuer: str | None = None

    @property
    def actor(self) -> str:
        """Who acts, as events and rows show it (P7); names are not unique, so it has the key's id or the issuer."""
        return f"{self.name} ({self.key_id or self.issuer})" if self.is_remote else self.name

    @property
    def is_remote(self) -> bool:
        """Whether it came with a key or a token."""
        return self.key_id is not None or self.issuer is not None

    @property
    def visible_platform(self) -> str | None:
        """The platform whose jobs, files and collections it may see; None: all."""
        return None if self.scope.includes(Scope.ADMIN) else self.platform


LOCAL = Principal("local", DEFAULT_PLATFORM, Scope.ADMIN)
ANONYMOUS = Principal("anonymous", "", Scope.READ)  # without a key, where the operator allows that: sees what is public


@dataclass(frozen=True)
class KeyRequest:
    """A key to make: two keys of one platform share jobs, two platforms don't (E15)."""

    name: str
    scope: Scope
    platform: str = DEFAULT_PLATFORM
    lasts: timedelta | None = None

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.name) or self.name.isspace() or holds_key(self.name):
            raise InputError(
                "key.invalid", "the name of a key must be 1 to 200 printable characters, and no key itself"
            )
        if self.name != self.name.strip():
            said = f"the name of a key, {self.name!r}, begins or ends with a blank"
            raise InputError("key.invalid", said, remedy=f"Write {self.name.strip()!r}: names of keys identify people.")
        if not self.name.isprintable():
            raise InputError("key.invalid", f"the name of a key, {self.name!r}, has a character that can't be seen")
        if not PLATFORM_PATTERN.fullmatch(self.platform):
            raise InputError(
                "key.invalid",
                "the id of a platform has 1 to 40 lowercase letters, digits, hyphens or underscores, "
                "and begins with a letter",
            )
        if self.lasts is not None and not timedelta(0) < self.lasts <= MAX_LIFETIME:
            raise InputError("key.invalid", f"a key lasts more than nothing and at most {MAX_LIFETIME.days} days")


@dataclass(frozen=True)
class Credential:
    """The two halves of a key. Whoever has it has access, so it is never shown by accident (S5)."""

    key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"Credential({self.key_id})"

    @classmethod
    def make(cls) -> "Credential":
        """A new one: a public id, and a secret of 256 random bits."""
        return cls(secrets.token_hex(6), secrets.token_hex(32))

    @classmethod
    def parse(cls, text: str) -> "Credential | None":
        """The credential that a key says, if it is one."""
        found = KEY.fullmatch(text)
        return cls(*found.groups()) if found else None

    @property
    def text(self) -> str:
        """The key as its holder sends it."""
        return f"anb_{self.key_id}_{self.secret}"

    @property
    def digest(self) -> bytes:
        """What is stored. One round of SHA-256 is enough: 256 random bits can't be guessed, as a password can."""
        return hashlib.sha256(self.secret.encode()).digest()


@dataclass(frozen=True)
class KnownKey:
    """What authentication needs of a stored key, as the database's clock sees it."""

    digest: bytes
    name: str
    platform: str
    scope: Scope
    expired: bool
    revoked: bool
    unnoted: bool

    def matches(self, credential: Credential) -> bool:
        """Whether the secret is this key's, in the same time whether it is or not."""
        return hmac.compare_digest(self.digest, credential.digest)

    def principal(self, key_id: str) -> Principal:
        """Who acts with it."""
        return Principal(f"{self.platform}/{self.name}", self.platform, self.scope, key_id)


def holds_key(text: str) -> bool:
    """Whether a text has a key or a token in it."""
    return ("anb_" in text and KEY.search(text) is not None) or (".eyJ" in text and TOKEN.search(text) is not None)


def redact(text: str) -> str:
    """The text without the secrets of the keys and tokens in it (S5)."""
    text = KEY.sub(_without_secret, text) if "anb_" in text else text
    return TOKEN.sub(".***", text) if ".eyJ" in text else text


def _without_secret(found: "re.Match[Any]") -> str:
    return f"anb_{found[1]}_***"


def is_loopback(host: str) -> bool:
    """Whether a host, by name or address, is loopback."""
    host = host.removeprefix("[").removesuffix("]").lower()
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def asks_for_keys(auth: str, host: str) -> bool:
    """Whether callers of an API on this host need keys, by the setting `auth`; beyond loopback they always do (S1)."""
    if auth == "none" and not is_loopback(host):
        raise InputError(
            "auth.open_address",
            f"the API can't listen on {host} without keys: everybody who can reach it could do everything",
            remedy="Set ANABRANCH_AUTH to keys or omit it, or listen on 127.0.0.1, ::1 or localhost.",
        )
    return auth == "keys" or not is_loopback(host)


def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
