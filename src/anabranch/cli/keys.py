"""`keys`: who may call the API."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from anabranch.access import Credential, Key, KeyRequest, Scope
from anabranch.cli.connection import connect, database_url, find_remote
from anabranch.cli.durations import parse_duration
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.options import Json
from anabranch.cli.setup import prepare
from anabranch.cli.show import age, note, print_json, print_line, print_table

if TYPE_CHECKING:
    from anabranch.adapters.postgres.keys import PostgresKeys

__all__ = ["cli"]

cli = typer.Typer(name="keys", help="Make, list and revoke API keys.")

CREATED_BY = "the operator"
KeyJson = dict[str, Any]  # a key as the API tells it
Answer = TypeVar("Answer")


@cli.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What or who uses it.")],
    scope: Annotated[Scope, typer.Option(help="What it may do; each includes those before it.")],
    owner: Annotated[str | None, typer.Option(help="Whose jobs it submits; keys of one owner share them.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="How long it lasts: 90m, 12h, 30d, 4w.")] = None,
    json: Json = False,
) -> None:
    """Make a key, and print it: it is shown only now."""
    lasts = None if expires is None else _read_time(expires)
    told = _create(KeyRequest(name, scope, lasts=lasts, **({} if owner is None else {"owner": owner})))
    if json:
        print_json(told)
        return
    print_line(told["key"])
    end = f", until {told['expires_at']}" if told["expires_at"] else ""
    note(f"key {told['id']} of {told['owner']} may {told['scope']}{end}; it is shown only now")


@cli.command("list")
def list_keys(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    before: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where a list ended.")] = None,
    json: Json = False,
) -> None:
    """List the keys, the newest first, without their secrets."""
    found, more = _list(limit, before)
    if json:
        print_json(found)
    else:
        facts = ("id", "name", "owner", "scope", "state")
        rows = ([*(k[fact] for fact in facts), k["expires_at"], age(k["used_at"])] for k in found)
        print_table([*facts, "expires", "used"], rows)
    if more:
        note(f"There are more: --before {more}")


@cli.command()
def revoke(id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")], json: Json = False) -> None:
    """Revoke a key for good."""
    if find_remote().url:
        with connect() as client:
            told = client.admin.revoke_key(id).raw
    else:
        told = _tell(_on_database(lambda keys: keys.revoke(id, CREATED_BY)))
    if json:
        print_json(told)
    else:
        print_line(f"revoked {told['id']}")


def _create(wanted: KeyRequest) -> KeyJson:
    if find_remote().url:
        seconds = None if wanted.lasts is None else int(wanted.lasts.total_seconds())
        with connect() as client:
            return client.admin.make_key(wanted.name, wanted.scope, owner=wanted.owner, expires_in_seconds=seconds).raw
    key, credential = _on_database(lambda keys: keys.make(wanted, CREATED_BY))
    return _tell(key, credential)


def _list(limit: int, before: str | None) -> tuple[list[KeyJson], str | None]:
    if find_remote().url:
        with connect() as client:
            page = client.admin.list_keys(limit=limit, before=before)
        return [key.raw for key in page], page.next
    if before is not None and not before.isdecimal():
        raise UsageError("usage", f"{before!r} is not a cursor", remedy="Use the one that a list ended with.")
    cursor = None if before is None else int(before)
    found = _on_database(lambda keys: keys.list(limit=limit + 1, before=cursor))
    return [_tell(key) for key in found[:limit]], str(found[limit - 1].id) if len(found) > limit else None


def _on_database(act: "Callable[[PostgresKeys], Awaitable[Answer]]") -> Answer:
    """What comes of an act on the keys of the database: whoever holds its URL needs no key, and there may be none."""
    import asyncio

    from anabranch.adapters.postgres.keys import open_keys

    url = database_url(prepare(quiet=True))

    async def open_and_act() -> Answer:
        async with open_keys(url) as keys:
            return await act(keys)

    return asyncio.run(open_and_act())


def _tell(key: Key, credential: Credential | None = None) -> KeyJson:
    """A key as the API tells it."""
    told = {name: _text(value) if name.endswith("_at") else value for name, value in asdict(key).items()}
    told["id"] = told.pop("key_id")
    return told if credential is None else {**told, "key": credential.text}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _read_time(text: str) -> timedelta:
    lasts = parse_duration(text)
    if lasts is None:
        raise UsageError("usage", f"{text!r} is no time that a key can last", remedy="Write it like 90m, 12h or 30d.")
    return lasts
