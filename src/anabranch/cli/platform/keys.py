"""`keys`: API keys."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from anabranch.access import Credential, KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import PostgresKeys, open_keys
from anabranch.cli.connection import connect, database_url
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.durations import parse_duration
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import ago, format_time, note, print_json, print_line, print_result, print_table
from anabranch.contract.answer import Page, build
from anabranch.contract.stack import Key, NewKey
from anabranch.embedded.locate import find_remote

__all__ = ["create", "list_keys", "revoke"]


CREATED_BY = "the operator"
Answer = TypeVar("Answer")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what uses the key.")],
    scope: Annotated[Scope, typer.Option(help="What the key may do; each scope includes the ones before it.")],
    platform: Annotated[
        str | None, typer.Option(help="The platform it belongs to; keys of one platform share jobs.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long the key is valid: 90m, 12h, 30d, 4w.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a key and print it; it is shown only once."""
    lasts = None if expires is None else parse_duration(expires, "a valid lifetime")
    key = _create(KeyRequest(name, scope, lasts=lasts, **({} if platform is None else {"platform": platform})))
    if json:
        print_json(key)
        return
    print_line(key.key)
    end = f", until {format_time(key.expires_at)}" if key.expires_at else ""
    note(f"key {key.id} of {key.platform} may {key.scope}{end}; it is shown only once")


def list_keys(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of keys.")] = 100,
    before: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
    json: Json = False,
) -> None:
    """List the keys, the newest first, without their secrets."""
    page = _list(limit, before)
    if json:
        print_json(page.items)
    else:
        facts = ("id", "name", "platform", "scope", "state")
        rows = ([*(getattr(key, fact) for fact in facts), key.expires_at, ago(key.used_at)] for key in page)
        print_table([*facts, "expires", "used"], rows)
    if page.next:
        note(f"next page: --before {page.next}")


def revoke(id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")], json: Json = False) -> None:
    """Revoke a key permanently."""
    if find_remote().url:
        with connect() as client:
            key = client.admin.revoke_key(id)
    else:
        key = _on_database(lambda keys: keys.revoke(id, CREATED_BY))
    print_result(key, f"revoked {key.id}", json=json)


def _create(wanted: KeyRequest) -> NewKey:
    if find_remote().url:
        seconds = None if wanted.lasts is None else int(wanted.lasts.total_seconds())
        with connect() as client:
            return client.admin.make_key(
                wanted.name, wanted.scope, platform=wanted.platform, expires_in_seconds=seconds
            )

    async def require_and_make(keys: PostgresKeys) -> tuple[Key, Credential]:
        await keys.require_platform(wanted.platform)
        return await keys.make(wanted, CREATED_BY)

    key, credential = _on_database(require_and_make)
    return build(NewKey, key, key=credential.text)


def _list(limit: int, before: str | None) -> Page[Key]:
    if find_remote().url:
        with connect() as client:
            return client.admin.list_keys(limit=limit, before=before)
    if before is not None and not before.isdecimal():
        raise UsageError("usage", f"{before!r} is not a cursor", remedy="Use the one that the previous page printed.")
    cursor = None if before is None else int(before)
    return _on_database(lambda keys: keys.list(limit=limit, before=cursor))


def _on_database(act: Callable[[PostgresKeys], Awaitable[Answer]]) -> Answer:
    """The result of an operation on the database's keys; its URL is enough, because there may be no key yet."""
    url = database_url(prepare(quiet=True))

    async def open_and_act() -> Answer:
        async with open_keys(url) as keys:
            return await act(keys)

    return asyncio.run(open_and_act())
