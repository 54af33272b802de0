"""API keys in schema app, by its functions only; a secret never reaches the database, only its hash (S5)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from psycopg import AsyncConnection
from psycopg.rows import DictRow, TupleRow, dict_row

from anabranch.access import Credential, KeyRequest, KnownKey, Scope
from anabranch.adapters.postgres.connect import Role, connect_async
from anabranch.adapters.postgres.database import call_text, translate
from anabranch.adapters.postgres.store.platforms import PostgresPlatforms
from anabranch.contract.answer import Page
from anabranch.contract.stack import Key
from anabranch.errors import NotFound

__all__ = ["PostgresKeys", "open_keys"]


class Calls(Protocol):
    """Calls functions of schema app by name."""

    async def call(self, function: str, *arguments: object) -> list[DictRow]:
        """The rows of a function."""


class PostgresKeys:
    """Makes, finds, lists and revokes keys."""

    def __init__(self, database: Calls) -> None:
        self._database = database

    async def make(self, wanted: KeyRequest, made_by: str, correlation_id: str | None = None) -> tuple[Key, Credential]:
        """A new key, and what its holder sends: it is shown here and never again."""
        credential = Credential.make()
        await self._database.call(
            "make_key", credential.key_id, credential.digest, wanted.name, wanted.platform, wanted.scope, wanted.lasts,
            made_by, correlation_id,
        )  # fmt: skip
        return await self.get(credential.key_id), credential

    async def require_platform(self, name: str) -> None:
        """NotFound where there is no platform that a key can belong to."""
        await PostgresPlatforms(self._database).require(name)

    async def find(self, key_id: str) -> KnownKey | None:
        """What authentication needs of a key."""
        rows = await self._database.call("find_key", key_id)
        return KnownKey(**{**rows[0], "scope": Scope(rows[0]["scope"])}) if rows else None

    async def note_use(self, key_id: str) -> None:
        """Note that a key was used; more often than once a minute changes nothing."""
        await self._database.call("use_key", key_id)

    async def get(self, key_id: str) -> Key:
        """A key as it may be shown."""
        rows = await self._database.call("list_keys", key_id, None, 1)
        if not rows:
            raise _unknown(key_id)
        return _key(rows[0])

    async def list(self, *, limit: int, before: int | None = None) -> Page[Key]:
        """Keys as they may be shown, the newest first."""
        rows = await self._database.call("list_keys", None, before, limit + 1)
        more = str(rows[limit - 1]["id"]) if len(rows) > limit else None
        return Page(tuple(map(_key, rows[:limit])), more)

    async def revoke(self, key_id: str, revoked_by: str, correlation_id: str | None = None) -> Key:
        """Revoke a key for good; one that is revoked stays so."""
        (row,) = await self._database.call("revoke_key", key_id, revoked_by, correlation_id)
        if not row["revoke_key"]:
            raise _unknown(key_id)
        return await self.get(key_id)

    async def retire_signing_key(self, key_id: str, public_key: str) -> None:
        """Note that a key that signed manifests is no longer used."""
        await self._database.call("retire_signing_key", key_id, public_key)


class OneConnection:
    """Calls over a connection of its own, for commands that make one call or two."""

    def __init__(self, url: str, connection: AsyncConnection[TupleRow]) -> None:
        self._url = url
        self._connection = connection

    async def call(self, function: str, *arguments: object) -> list[DictRow]:
        """The rows of a function."""
        with translate(self._url):
            async with self._connection.cursor(row_factory=dict_row) as cursor:
                return await (await cursor.execute(call_text(function).encode(), arguments)).fetchall()


@asynccontextmanager
async def open_keys(url: str) -> AsyncIterator[PostgresKeys]:
    """The keys of the database at this URL, for the operator who holds it."""
    async with await connect_async(url, Role.APP, name="anabranch keys") as connection:
        yield PostgresKeys(OneConnection(url, connection))


def _key(row: DictRow) -> Key:
    known = {**row, "id": row["key_id"], "scope": Scope(row["scope"])}
    del known["key_id"]
    return Key(**known)


def _unknown(key_id: str) -> NotFound:
    return NotFound("key.not_found", f"there is no key {key_id!r}", remedy="List them with `anabranch keys list`.")
