"""A database's URL with the other ways to it: past a pooler, as other logins, with passwords from elsewhere."""

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Self

from anabranch.adapters.postgres.server.passwords import Passwords
from anabranch.errors import InputError

if TYPE_CHECKING:
    from pydantic import SecretStr

    from anabranch.settings import Settings

__all__ = ["Role", "ServerUrl", "Way", "configured_url", "has_several_hosts", "parse_url"]

# Past the pooler; and the logins of the owner, of those who only read, and of handlers.
Way = Literal["direct", "owner", "reader", "handler"]
ENDPOINT = ("host", "hostaddr", "port")


class Role(Enum):
    """Whom a connection acts as; the login user is a member."""

    OWNER = "anabranch_owner"
    APP = "anabranch_app"
    READER = "anabranch_reader"
    HANDLER = "anabranch_handler"
    GEO = "anabranch_geo"
    FEATURES = "anabranch_features"
    SCALER = "anabranch_scaler"


# Roles that have a login of their own where one is configured. The others have that of the URL itself.
LOGINS: Mapping[Role | None, Way] = {
    Role.READER: "reader",
    Role.FEATURES: "reader",
    Role.HANDLER: "handler",
    Role.GEO: "handler",
}


class ServerUrl(str):
    """The URL of a database, with what else the settings say of how to connect to it.

    It is a text: what names a database, or passes it on, needs to know no more than its URL.
    """

    ways: Mapping[Way, str]
    passwords: Passwords | None
    pooled: bool  # whether a pooler stands between, which gives each transaction any of its sessions

    def __new__(
        cls,
        url: str,
        ways: Mapping[Way, str] = MappingProxyType({}),
        passwords: Passwords | None = None,
        *,
        pooled: bool = False,
    ) -> Self:
        made = super().__new__(cls, url)
        made.ways, made.passwords, made.pooled = dict(ways), passwords, pooled
        return made

    @classmethod
    def of(cls, url: str) -> "ServerUrl":
        """What a URL knows of other ways; of a plain text nothing."""
        return url if isinstance(url, ServerUrl) else ServerUrl(url)

    def choose(self, role: Role | None, *, session: bool = True) -> "ServerUrl":
        """The URL for a role, or for none: the login itself, for sessions the owner's.

        Without `session` each transaction may have another one. Sessions are those of the owner and of the URL's login.
        """
        if role is Role.OWNER or (role is None and session):
            return self._take("owner", "direct", session=True)
        if session:
            return self._take("direct", session=True)
        way = LOGINS.get(role)
        return self._take(way) if way else self._take()

    def for_handlers(self) -> "ServerUrl":
        """The URL that handlers get, which knows no other way."""
        return self._take("handler")

    def members(self) -> dict[str, list[Role]]:
        """The logins beside the owner's, and the roles that each may take; none where one login is for all."""
        owner = _user(self.choose(Role.OWNER))
        found: dict[str, list[Role]] = {}
        for way, url in [(None, str(self)), *self.ways.items()]:
            theirs = [role for role in Role if way and LOGINS.get(role) == way]
            roles = theirs or [role for role in Role if role is not Role.OWNER]
            if (user := _user(url)) and user != owner:
                found[user] = [role for role in Role if role in {*found.get(user, ()), *roles}]
        return found

    def _take(self, *ways: Way, session: bool = False) -> "ServerUrl":
        url = next((self.ways[way] for way in ways if way in self.ways), str(self))
        direct = self.ways.get("direct")
        pooled = self.pooled if direct is None else _endpoint(url) != _endpoint(direct)
        return ServerUrl(url, passwords=self.passwords, pooled=pooled and not session)


def configured_url(settings: "Settings") -> ServerUrl | None:
    """The database that the settings name; None where it is that of the home's own server."""
    if settings.database_url is None:
        return None
    named: dict[Way, SecretStr | None] = {
        "direct": settings.database_direct_url,
        "owner": settings.database_owner_url,
        "reader": settings.database_reader_url,
        "handler": settings.database_handler_url,
    }
    file, command = settings.database_password_file, settings.database_password_command
    passwords = (
        Passwords(file, command.get_secret_value() if command else None, settings.database_password_seconds)
        if file or command
        else None
    )
    ways = {way: url.get_secret_value() for way, url in named.items() if url}
    return ServerUrl(settings.database_url.get_secret_value(), ways, passwords)


def parse_url(url: str) -> dict[str, str]:
    """The parameters of a URL, which must be one; what is wrong is never shown, for it may be a password."""
    from psycopg import ProgrammingError  # late: handlers' processes have a URL, and most never use it
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except ProgrammingError:
        given = {}
    # A password that isn't encoded spills into the host, the port or the database name, and from there into errors.
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    spilled = authority.count("@") > 1 or "@" in path or "@" in given.get("host", "")
    if spilled or not given or not re.fullmatch(r"[0-9,]*", given.get("port", "")):
        raise InputError(
            "database.url_invalid",
            "the database URL can't be read",
            remedy="Write postgresql://user:password@host:port/name, and encode @ : / ? # % in the password (%40).",
        ) from None
    return given


def has_several_hosts(given: Mapping[str, str]) -> bool:
    """Whether the parameters of a URL name more than one server."""
    return "," in given.get("host", "") + given.get("hostaddr", "")


def _endpoint(url: str) -> tuple[str | None, ...]:
    given = parse_url(url)
    return tuple(given.get(name) for name in ENDPOINT)


def _user(url: str) -> str:
    return parse_url(url).get("user", "")
