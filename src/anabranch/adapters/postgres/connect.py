"""Connections to PostgreSQL in one of our roles; an error never shows the password (S5)."""

from collections.abc import Mapping

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.server.connection import AsyncServerConnection, ServerConnection
from anabranch.adapters.postgres.server.url import Role, ServerUrl, has_several_hosts, parse_url
from anabranch.errors import Unavailable

__all__ = [
    "LOCKS_SETTING", "Role", "breaks_connection", "connect", "connect_async", "conninfo", "held_off", "layers_conninfo",
    "mask", "settings_of", "too_many_locks", "unreachable", "without_secrets",
]  # fmt: skip

CONNECT_TIMEOUT_SECONDS = "10"


# A peer that vanished without a word is noticed in less than a lease.
KEEPALIVE = {"keepalives_idle": "5", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "20000"}


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


def conninfo(
    url: str, role: Role | None, name: str, *, writes: bool = False, settings: Mapping[str, str] | None = None
) -> str:
    """How to connect in a role, for psycopg and its pools; without a role, as the login user with the owner's settings.

    Settings in the URL's own `options` are kept and stand above ours; the role is always ours. Through a pooler no
    option can be given: each transaction applies its settings itself.
    """
    given = parse_url(url)
    ours = {"application_name": name, "client_encoding": "UTF8"}
    if not ServerUrl.of(url).pooled:
        wanted = settings_of(role) if settings is None else settings
        options = [*(_option(*one) for one in wanted.items()), given.get("options", "")]
        ours["options"] = " ".join(filter(None, [*options, *([_option("role", role.value)] if role else [])]))
    if writes or role in WRITERS:  # after a failover the old server still answers, and only reads
        ours["target_session_attrs"] = "read-write"
    elif has_several_hosts(given):  # what was written a moment ago is on no standby yet
        given.setdefault("target_session_attrs", "primary")
    return make_conninfo("", **{"connect_timeout": CONNECT_TIMEOUT_SECONDS, **KEEPALIVE, **given, **ours})


def settings_of(role: Role | None) -> dict[str, str]:
    """The settings of a role's transactions, and itself; without a role, those of the owner."""
    return {"timezone": "UTC", **SETTINGS[role or Role.OWNER], **({"role": role.value} if role else {})}


def layers_conninfo(url: str) -> str:
    """How a person's tools connect to read the published layers, and nothing else."""
    login = ServerUrl.of(url).choose(Role.FEATURES, session=False)
    given = parse_url(ServerUrl.of(url).choose(Role.FEATURES) if login.pooled else login)
    settings = {"role": Role.FEATURES.value, "default_transaction_read_only": "on", "search_path": "geo,public"}
    options = [*(_option(*setting) for setting in settings.items()), given.get("options", "")]
    return make_conninfo("", **{**given, "options": " ".join(filter(None, options))})


def connect(
    url: str,
    role: Role | None,
    *,
    name: str = "anabranch",
    autocommit: bool = True,
    writes: bool = False,
    session: bool = True,
) -> Connection[TupleRow]:
    """An open connection in a role; without `session`, each of its transactions may have another."""
    login = ServerUrl.of(url).choose(role, session=session)
    text = conninfo(login, role, name, writes=writes)
    try:
        return ServerConnection.open(login, text, settings_of(role), autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise unreachable(login, error) from None


async def connect_async(
    url: str, role: Role | None, *, name: str = "anabranch", autocommit: bool = True, session: bool = True
) -> AsyncConnection[TupleRow]:
    """The same for asyncio."""
    login = ServerUrl.of(url).choose(role, session=session)
    text = conninfo(login, role, name)
    try:
        return await AsyncServerConnection.connect(text, login=login, settings=settings_of(role), autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise unreachable(login, error) from None


def mask(url: str) -> str:
    """Which database a URL names, as it may be shown."""
    given = parse_url(url)
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
    if "unsupported startup parameter" in reason:
        return Unavailable(
            "database.unreachable",
            f"PostgreSQL can't be used at {mask(url)}, where a pooler is: {reason}",
            remedy="Set ANABRANCH_DATABASE_DIRECT_URL to the server behind it.",
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


def without_secrets(url: str, text: str) -> str:
    """A server's message without secrets."""
    given = parse_url(url)
    passwords = ServerUrl.of(url).passwords
    known = {given.get("password", ""), given.get("sslpassword", ""), *(passwords.known() if passwords else ())}
    secrets = sorted(known - {""}, key=len, reverse=True)
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _option(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
    return f"-c {name}={escaped}"
