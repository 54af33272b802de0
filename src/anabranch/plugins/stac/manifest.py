"""The signed manifest of an item."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from anabranch.canonical import JsonObject
from anabranch.manifests.envelope import sign, write_envelope
from anabranch.manifests.signing_key import SigningKey
from anabranch.manifests.statement import Origin, build_statement
from anabranch.plugins.stac.facts import RasterItem
from anabranch.plugins.stac.item import find_outputs

__all__ = ["Manifest", "our_version", "sign_manifest"]


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


def sign_manifest(origin: Origin, key: SigningKey, collection: str, raster: RasterItem) -> Manifest | None:
    """The manifest of the item that a raster becomes; None where the hash of none of its files is known."""
    source = raster.source
    files = {output.name: output.sha256 for output in find_outputs(raster) if output.sha256}
    if not files:
        return None
    statement = build_statement(
        origin,
        {"collection": collection, "item": raster.id},
        files=files,
        sources={source.name or "source": source.sha256} if source and source.sha256 else {},
        libraries={"anabranch": our_version(), **raster.software},
    )
    envelope = write_envelope(sign(statement, key))
    handlers: JsonObject = {name: list(versions) for name, versions in origin.handlers.items()}
    return Manifest(envelope, {"id": key.id, "public_key": key.public_key}, handlers)
