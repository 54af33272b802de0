"""`keys`: API keys."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer

from anabranch.access import Credential, Key, KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import PostgresKeys, open_keys
from anabranch.cli.connection import connect, database_url, find_remote
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.durations import parse_duration
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import age, note, print_json, print_line, print_result, print_table

__all__ = ["create", "list_keys", "revoke"]


CREATED_BY = "the operator"
KeyJson = dict[str, Any]  # a key as the API returns it
Answer = TypeVar("Answer")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what uses the key.")],
    scope: Annotated[Scope, typer.Option(help="What the key may do; each scope includes the ones before it.")],
    owner: Annotated[
        str | None, typer.Option(help="The owner of the jobs it submits; keys of one owner share them.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long the key is valid: 90m, 12h, 30d, 4w.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a key and print it; it is shown only once."""
    lasts = None if expires is None else parse_duration(expires, "a valid lifetime")
    key = _create(KeyRequest(name, scope, lasts=lasts, **({} if owner is None else {"owner": owner})))
    if json:
        print_json(key)
        return
    print_line(key["key"])
    end = f", until {key['expires_at']}" if key["expires_at"] else ""
    note(f"key {key['id']} of {key['owner']} may {key['scope']}{end}; it is shown only once")


def list_keys(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of keys.")] = 100,
    before: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
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
        note(f"next page: --before {more}")


def revoke(id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")], json: Json = False) -> None:
    """Revoke a key permanently."""
    if find_remote().url:
        with connect() as client:
            key = client.admin.revoke_key(id).raw
    else:
        key = _to_json(_on_database(lambda keys: keys.revoke(id, CREATED_BY)))
    print_result(key, f"revoked {key['id']}", json=json)


def _create(wanted: KeyRequest) -> KeyJson:
    if find_remote().url:
        seconds = None if wanted.lasts is None else int(wanted.lasts.total_seconds())
        with connect() as client:
            return client.admin.make_key(wanted.name, wanted.scope, owner=wanted.owner, expires_in_seconds=seconds).raw
    key, credential = _on_database(lambda keys: keys.make(wanted, CREATED_BY))
    return _to_json(key, credential)


def _list(limit: int, before: str | None) -> tuple[list[KeyJson], str | None]:
    if find_remote().url:
        with connect() as client:
            page = client.admin.list_keys(limit=limit, before=before)
        return [key.raw for key in page], page.next
    if before is not None and not before.isdecimal():
        raise UsageError("usage", f"{before!r} is not a cursor", remedy="Use the one that the previous page printed.")
    cursor = None if before is None else int(before)
    found = _on_database(lambda keys: keys.list(limit=limit + 1, before=cursor))
    return [_to_json(key) for key in found[:limit]], str(found[limit - 1].id) if len(found) > limit else None


def _on_database(act: Callable[[PostgresKeys], Awaitable[Answer]]) -> Answer:
    """The result of an operation on the database's keys; its URL is enough, because there may be no key yet."""
    url = database_url(prepare(quiet=True))

    async def open_and_act() -> Answer:
        async with open_keys(url) as keys:
            return await act(keys)

    return asyncio.run(open_and_act())


def _to_json(key: Key, credential: Credential | None = None) -> KeyJson:
    """A key as the API returns it."""
    view = {name: _text(value) if name.endswith("_at") else value for name, value in asdict(key).items()}
    view["id"] = view.pop("key_id")
    return view if credential is None else {**view, "key": credential.text}


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
