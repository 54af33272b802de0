"""`signing-keys`: the keys that sign manifests."""

import asyncio
from pathlib import Path

from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.cli.connection import connect, database_url
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import ago, print_list, print_result
from anabranch.manifests.signing_key import SigningKey

__all__ = ["list_signing_keys", "rotate"]


def list_signing_keys(json: Json = False) -> None:
    """List the public keys that signed manifests."""
    with connect() as client:
        keys = client.signing_keys()
    head = ["id", "first used", "retired"]
    print_list(keys, head, lambda key: [key.id, ago(key.first_used_at), ago(key.retired_at)], json=json)


def rotate(json: Json = False) -> None:
    """Replace the signing key of this home; what the former one signed stays valid."""
    settings = prepare(quiet=True)
    former, key = asyncio.run(_rotate(database_url(settings), settings.signing_key_file))
    answer = {"id": key.id, "former": former.id}
    print_result(answer, f"{key.id} signs from now on; {former.id} is retired", json=json)


async def _rotate(url: str, file: Path) -> tuple[SigningKey, SigningKey]:
    """Retire the key in the database first: if that fails, nothing has changed."""
    former = SigningKey.open(file)
    async with open_keys(url) as keys:
        await keys.retire_signing_key(former.id, former.public_key)
    return former, SigningKey.replace(file)
