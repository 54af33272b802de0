"""Connections to PostgreSQL in one of our roles; an error never shows the password (S5)."""

import re
from collections.abc import Mapping
from enum import Enum

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from anabranch.errors import InputError, Unavailable

__all__ = [
    "LOCKS_SETTING", "Role", "breaks_connection", "connect", "connect_async", "conninfo", "held_off", "layers_conninfo",
    "mask", "too_many_locks", "unreachable", "without_secrets",
]  # fmt: skip

CONNECT_TIMEOUT_SECONDS = "10"


# A peer that vanished without a word is noticed in less than a lease.
KEEPALIVE = {"keepalives_idle": "5", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "20000"}


class Role(Enum):
    """Whom a connection acts as; the login user is a member of all."""

    OWNER = "anabranch_owner"
    APP = "anabranch_app"
    READER = "anabranch_reader"
    HANDLER = "anabranch_handler"
    GEO = "anabranch_geo"
    FEATURES = "anabranch_features"
    SCALER = "anabranch_scaler"


# No connection, none left, an end, a server that only reads.
NO_CONNECTION = ("08", "25006", "53300", "57P")
# A server that only reads, statements it does not know, an end, a failing disk or server.
BROKEN_CONNECTION = ("25", "26", "42P05", "57P", "58", "XX")
LOCKS_SETTING = "max_locks_per_transaction"
HELD_OFF = "AN003"  # of app.open_session()
MISSING_SCHEMA = ("3F000", "42P01", "42703", "42883")
WRITERS = (Role.OWNER, Role.APP, Role.HANDLER, Role.GEO)

# One session that hangs stops the vacuum of hot tables and the locks of others, so all of them are bounded.
SETTINGS: Mapping[Role, Mapping[str, str]] = {
    Role.OWNER: {"statement_timeout": "0", "lock_timeout": "10s", "search_path": ""},
    Role.APP: {
        "statement_timeout": "60s",
        "lock_timeout": "5s",
        "idle_in_transaction_session_timeout": "10s",
        "default_transaction_isolation": "read committed",
    },
    Role.READER: {"statement_timeout": "10s", "default_transaction_read_only": "on"},
    Role.HANDLER: {
        "statement_timeout": "60s",
        "lock_timeout": "10s",
        "idle_in_transaction_session_timeout": "10s",
        "idle_session_timeout": "15s",  # a child that keeps a connection for its next task may not get one
        "default_transaction_isolation": "read committed",
        "search_path": "pgstac,public",
    },
    Role.GEO: {
        "statement_timeout": "60s",
        "lock_timeout": "10s",
        "idle_in_transaction_session_timeout": "10s",
        "idle_session_timeout": "15s",
        "search_path": "geo,public",
    },
    Role.FEATURES: {
        "statement_timeout": "10s",
        "default_transaction_read_only": "on",
        "search_path": "geo,public",
    },
    Role.SCALER: {"statement_timeout": "10s", "default_transaction_read_only": "on"},
}


def conninfo(url: str, role: Role | None, name: str, *, writes: bool = False) -> str:
    """How to connect in a role, for psycopg and its pools; without a role, as the login user with the owner's settings.

    Settings in the URL's own `options` are kept and stand above ours; the role is always ours.
    """
    given = _parse(url)
    settings = {"timezone": "UTC", **SETTINGS[role or Role.OWNER]}
    options = [*(_option(*setting) for setting in settings.items()), given.get("options", "")]
    if role:
        options.append(_option("role", role.value))
    ours = {"options": " ".join(filter(None, options)), "application_name": name, "client_encoding": "UTF8"}
    if writes or role in WRITERS:  # after a failover the old server still answers, and only reads
        ours["target_session_attrs"] = "read-write"
    return make_conninfo("", **{"connect_timeout": CONNECT_TIMEOUT_SECONDS, **KEEPALIVE, **given, **ours})


def layers_conninfo(url: str) -> str:
    """How a person's tools connect to read the published layers, and nothing else."""
    given = _parse(url)
    settings = {"role": Role.FEATURES.value, "default_transaction_read_only": "on", "search_path": "geo,public"}
    options = [*(_option(*setting) for setting in settings.items()), given.get("options", "")]
    return make_conninfo("", **{**given, "options": " ".join(filter(None, options))})


def connect(
    url: str, role: Role | None, *, name: str = "anabranch", autocommit: bool = True, writes: bool = False
) -> Connection[TupleRow]:
    """An open connection in a role."""
    text = conninfo(url, role, name, writes=writes)
    try:
        return psycopg.connect(text, autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise unreachable(url, error) from None


async def connect_async(
    url: str, role: Role | None, *, name: str = "anabranch", autocommit: bool = True
) -> AsyncConnection[TupleRow]:
    """An open connection in a role, for asyncio."""
    text = conninfo(url, role, name)
    try:
        return await AsyncConnection.connect(text, autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise unreachable(url, error) from None


def mask(url: str) -> str:
    """Which database a URL names, as it may be shown."""
    given = _parse(url)
    where = given.get("hostaddr") or given.get("host") or "the default socket"
    port = f":{given['port']}" if "port" in given else ""
    return f"{given.get('user', '')}@{where}{port}/{given.get('dbname', '')}"


def breaks_connection(error: psycopg.Error) -> bool:
    """Whether a connection is of no more use after the error that a server gave."""
    return error.sqlstate is not None and error.sqlstate.startswith(BROKEN_CONNECTION)


def unreachable(url: str, error: psycopg.Error) -> Unavailable:
    """The error that says why a database can't be used now, without its secrets."""
    reason = without_secrets(url, str(error)).strip()
    if any(f'"{role.value}"' in reason for role in Role):
        return Unavailable(
            "database.not_migrated",
            f"the database {mask(url)} has no role for Anabranch, or its user may not take it: {reason}",
            remedy="Run `anabranch db migrate` with this database URL.",
        )
    if error.sqlstate == HELD_OFF:
        return held_off(mask(url))
    if LOCKS_SETTING in (error.diag.message_hint or ""):
        return too_many_locks(mask(url), "the command needs more locks than the server has room for")
    if error.sqlstate in MISSING_SCHEMA:
        return Unavailable(
            "database.not_migrated",
            f"the database {mask(url)} does not have the schema of this release: {reason}",
            remedy="Run `anabranch db migrate`; while an upgrade is under way, wait for its end.",
        )
    if error.sqlstate is None or error.sqlstate.startswith(NO_CONNECTION):
        return Unavailable(
            "database.unreachable",
            f"PostgreSQL can't be used at {mask(url)}: {reason}",
            remedy="Start the server, or fix ANABRANCH_DATABASE_URL; `anabranch doctor` looks at both.",
        )
    return Unavailable(
        "database.interrupted",
        f"PostgreSQL at {mask(url)} could not do it now: {reason}",
        remedy="It is tried again; if it goes on, look at the server's log.",
    )


def too_many_locks(database: str, what: str, *, setting: int | None = None) -> Unavailable:
    """The error of a transaction that holds more locks than a server has room for."""
    to = f"to {setting} or more" if setting else "to a multiple of what it is"
    return Unavailable(
        "database.locks",
        f"the database {database} can't take it: {what}",
        remedy=f"Set `{LOCKS_SETTING}` of the server {to}, restart it, and run this again.",
    )


def held_off(database: str) -> Unavailable:
    """The error of a process that may not use a database now."""
    return Unavailable(
        "database.held_off",
        f"the database {database} is being restored or reset",
        remedy="It is tried again; if no such command is running, one that was interrupted must be run again.",
    )


def _parse(url: str) -> dict[str, str]:
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.ProgrammingError:
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


def without_secrets(url: str, text: str) -> str:
    """A server's message without secrets."""
    given = _parse(url)
    secrets = sorted({given.get("password", ""), given.get("sslpassword", "")} - {""}, key=len, reverse=True)
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _option(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
    return f"-c {name}={escaped}"
