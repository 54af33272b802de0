"""The signed manifest of an item."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from anabranch.canonical import JsonObject
from anabranch.manifests.envelope import sign, write_envelope
from anabranch.manifests.signing_key import SigningKey
from anabranch.manifests.statement import Origin, build_statement
from anabranch.plugins.stac.facts import ItemReference, RasterItem
from anabranch.plugins.stac.item import find_outputs

__all__ = ["Manifest", "our_version", "sign_manifest", "sign_raster"]


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


def sign_manifest(
    origin: Origin,
    key: SigningKey,
    published_as: ItemReference,
    *,
    files: Mapping[str, str],
    sources: Mapping[str, str],
    software: Mapping[str, str],
) -> Manifest:
    """The manifest of an item; files and sources are hashes by name."""
    statement = build_statement(
        origin,
        {"collection": published_as.collection, "item": published_as.id},
        files=files,
        sources=sources,
        libraries={"anabranch": our_version(), **software},
    )
    envelope = write_envelope(sign(statement, key))
    handlers: JsonObject = {name: list(versions) for name, versions in origin.handlers.items()}
    return Manifest(envelope, {"id": key.id, "public_key": key.public_key}, handlers)


def sign_raster(origin: Origin, key: SigningKey, collection: str, raster: RasterItem) -> Manifest:
    """The manifest of the item that a raster becomes."""
    source = raster.source
    return sign_manifest(
        origin,
        key,
        ItemReference(collection=collection, id=raster.id),
        files={output.name: output.sha256 for output in find_outputs(raster)},
        sources={source.name or "source": source.sha256} if source else {},
        software=raster.software,
    )
