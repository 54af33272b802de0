"""The signed manifest of an item."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from anabranch.canonical import JsonObject
from anabranch.manifests.envelope import sign, write_envelope
from anabranch.manifests.signing_key import SigningKey
from anabranch.manifests.statement import Origin, build_statement
from anabranch.plugins.stac.facts import ItemFacts, ItemReference, VectorItem
from anabranch.plugins.stac.item import find_outputs

__all__ = ["Manifest", "Signer", "our_version", "sign_item"]

NOTHING: Mapping[str, str] = {}


@cache
def our_version() -> str:
    """The version of this package, which is read from a file."""
    return version("anabranch")


@dataclass(frozen=True)
class Manifest:
    """A manifest as our tables store it: the envelope, its key, and the handlers that it lists."""

    envelope: str
    key: JsonObject
    handlers: JsonObject


class Signer:
    """Signs the manifests of items that a job makes of the same sources; files and sources are hashes by name."""

    def __init__(
        self,
        origin: Origin,
        key: SigningKey,
        *,
        files: Mapping[str, str] = NOTHING,
        sources: Mapping[str, str] = NOTHING,
        software: Mapping[str, str] = NOTHING,
    ) -> None:
        """What all of their manifests say is built once."""
        libraries = {"anabranch": our_version(), **software}
        self._statement = build_statement(origin, {}, files=files, sources=sources, libraries=libraries)
        self._key = key
        self._public: JsonObject = {"id": key.id, "public_key": key.public_key}
        self._handlers: JsonObject = {name: list(versions) for name, versions in origin.handlers.items()}

    def sign(self, item: ItemReference, table: str | None = None) -> Manifest:
        """The manifest of an item; `table` is the one of its subjects that is no file."""
        named: JsonObject = {"table": table} if table else {}
        statement = self._statement.published({"collection": item.collection, "item": item.id, **named})
        return Manifest(write_envelope(sign(statement, self._key)), self._public, self._handlers)


def sign_item(origin: Origin, key: SigningKey, collection: str, facts: ItemFacts) -> Manifest | None:
    """The manifest of an item; None where the hash of none of its files is known."""
    source = facts.source
    files = {output.name: output.sha256 for output in find_outputs(facts) if output.sha256}
    table = f"geo.{facts.table.name}" if isinstance(facts, VectorItem) else None
    if isinstance(facts, VectorItem) and table:
        files[table] = facts.table.sha256
    if not files:
        return None
    signer = Signer(
        origin,
        key,
        files=files,
        sources={source.name or "source": source.sha256} if source and source.sha256 else {},
        software=facts.software,
    )
    return signer.sign(ItemReference(collection=collection, id=facts.id), table)
