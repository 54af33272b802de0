"""Connections that know where their password is, and, through a pooler, how each of their transactions begins.

A pooler in transaction mode takes no settings when a client connects, and gives each transaction any of its sessions.
So nothing may be left in a session: no setting, no prepared statement.
"""

import asyncio
from collections.abc import Generator, Mapping
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import Row, TupleRow

from anabranch.adapters.postgres.server.url import ServerUrl, parse_url

__all__ = ["AsyncServerConnection", "ServerConnection", "add_password", "spell_settings"]

ISOLATION = "default_transaction_isolation"  # a transaction has it from its first word
OF_SESSIONS = ("idle_session_timeout", ISOLATION)


def spell_settings(settings: Mapping[str, str]) -> bytes:
    """The statement that applies a session's settings until the transaction ends."""
    calls = [
        sql.SQL("set_config({}, {}, true)").format(name.replace("default_transaction_", "transaction_"), value)
        for name, value in settings.items()
        if name not in OF_SESSIONS
    ]
    return sql.SQL("select {}").format(sql.SQL(", ").join(calls)).as_bytes(None)


def add_password(login: ServerUrl, text: str, refused: str | None = None) -> str:
    """How to connect, with the password where the URL has none: another one than was refused, if there is one."""
    if login.passwords is None or parse_url(login).get("password"):
        return text
    given = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    return make_conninfo(text, password=login.passwords.read(given, refused))


class ServerConnection(Connection[TupleRow]):
    """A connection by which a URL is used."""

    begins_with: bytes = b""

    @classmethod
    def open(cls, login: ServerUrl, text: str, settings: Mapping[str, str], *, autocommit: bool) -> Self:
        """Connect; with another password where the first is refused."""
        text = add_password(login, text)
        try:
            made = cls.connect(text, autocommit=autocommit)
        except psycopg.OperationalError as error:
            made = cls.connect(_renew_password(login, text, error), autocommit=autocommit)
        if login.pooled:
            made.prepare_threshold = None
            made.isolation_level = IsolationLevel.READ_COMMITTED
            made.begins_with = spell_settings(settings)
        return made

    # The one place of the driver that every transaction passes, also those that a handler begins after a commit.
    def _exec_command(
        self, command: Any, *given: Any, **named: Any
    ) -> Generator[Any, Any, Any]:  # the driver's own types
        return (yield from _begin_with(self.begins_with, command, super()._exec_command, *given, **named))


class AsyncServerConnection(AsyncConnection[Row]):
    """The same for asyncio, and for pools."""

    begins_with: bytes = b""

    @classmethod
    async def connect(  # type: ignore[override]  # a pool hands on what it was given for its connections
        cls, conninfo: str = "", *, login: ServerUrl, settings: Mapping[str, str], **given: Any
    ) -> Self:
        """Connect; with another password where the first is refused."""
        text = await asyncio.to_thread(add_password, login, conninfo) if login.passwords else conninfo
        try:
            made = await super().connect(text, **given)
        except psycopg.OperationalError as error:
            made = await super().connect(await asyncio.to_thread(_renew_password, login, text, error), **given)
        if login.pooled:
            made.prepare_threshold = None
            await made.set_isolation_level(IsolationLevel.READ_COMMITTED)
            made.begins_with = spell_settings(settings)
        return made

    def _exec_command(self, command: Any, *given: Any, **named: Any) -> Generator[Any, Any, Any]:  # as above
        return (yield from _begin_with(self.begins_with, command, super()._exec_command, *given, **named))


def _begin_with(  # as above
    settings: bytes, command: Any, run: Any, *given: Any, **named: Any
) -> Generator[Any, Any, Any]:
    result = yield from run(command, *given, **named)
    if settings and isinstance(command, bytes) and command.startswith(b"BEGIN"):
        yield from run(settings)
    return result


def _renew_password(login: ServerUrl, text: str, error: psycopg.OperationalError) -> str:
    """How to connect after an error that may be due to the password; the error itself where there is no other one."""
    if login.passwords is None or (error.pgconn and not error.pgconn.used_password):
        raise error
    again = add_password(login, text, refused=str(conninfo_to_dict(text).get("password", "")))
    if again == text:
        raise error
    return again
