"""What is published."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from html import escape
from typing import Literal

from anabranch.contract.answer import Answer, JsonObject, JsonValue, answer

__all__ = [
    "AffectedFile",
    "CollectionAccess",
    "Envelope",
    "Item",
    "ItemAct",
    "ItemChange",
    "Publication",
    "PublishedItem",
    "RemovedCollection",
    "Signature",
    "SigningKey",
    "choose_workflow",
]  # fmt: skip

ItemAct = Literal["withdraw", "restore", "rollback"]  # what people do with an item that was published


def choose_workflow(document: JsonObject) -> str:
    """The workflow that makes new content for a STAC item: that of vector files where it shows a layer."""
    return "process_vector" if "anabranch:layer" in document["properties"] else "process_raster"


@answer
class Item(Answer):
    """A STAC item."""

    id: str
    collection: str
    bbox: tuple[float, ...] | None
    geometry: JsonValue
    properties: JsonObject
    assets: JsonObject
    links: tuple[JsonValue, ...]

    def find_link(self, rel: str) -> str | None:
        """The URL of its first link with a relation, like `self` or `tilejson`."""
        return next((link["href"] for link in self.links if link.get("rel") == rel), None)

    @property
    def time(self) -> str:
        """Its acquisition time for people: a moment, an interval, or what is known of an unknown one."""
        start, end = (self.properties.get(f"{name}_datetime") for name in ("start", "end"))
        if moment := self.properties.get("datetime"):
            return str(moment)
        if not (start and end):
            return "unknown"
        # An interval from the beginning of time as computers count it: all that is known is its end.
        return f"unknown, before {end[:10]}" if start.startswith("1970-01-01T00:00:00") else f"{start} to {end}"

    def __str__(self) -> str:
        return f"{self.collection}/{self.id} ({self.time}): {', '.join(self.assets)}"

    def _repr_html_(self) -> str:
        """The item in a notebook: its name, its preview if it has one, and links to its assets."""
        assets = {name: asset["href"] for name, asset in self.assets.items() if "href" in asset}
        pictures = (asset["href"] for asset in self.assets.values() if "thumbnail" in (asset.get("roles") or ()))
        picture = "".join(f'<br><img src="{escape(href)}" style="max-height: 12em">' for href in list(pictures)[:1])
        links = " · ".join(f'<a href="{escape(href)}">{escape(name)}</a>' for name, href in assets.items())
        return f"<b>{escape(self.id)}</b> in {escape(self.collection)}{picture}<br>{links}"


@answer
class PublishedItem(Answer):
    """A published item: the job that published it, and the handlers that made it."""

    collection: str
    id: str
    number: int
    """The number of its current publication; it rises with every change of what readers see."""
    publication: str
    """The id of the publication whose files it shows: `/files/p/{publication}/{name}`."""
    job_id: str
    published_at: datetime
    signing_key: str | None
    """The id of the key that signed its manifest; null if it has none."""
    handlers: Mapping[str, tuple[str, ...]]
    """The versions of each handler that took part."""


@answer
class Publication(Answer):
    """An entry of the history of an item: what was done, by whom and why."""

    number: int
    action: str
    """publish, replace, rollback, restore or withdraw."""
    publication: str
    """Its id."""
    shows: int | None
    """The number of the publication whose content it shows, itself where it brought some; null for a withdrawal."""
    job_id: str | None
    """The job that did it; null where a person did."""
    actor: str
    reason: str | None
    at: datetime
    current: bool
    """Whether it is the newest."""
    available: bool
    """Whether its content is kept, so that the item can be rolled back to it."""


@answer
class AffectedFile(Answer):
    """A file that a change of an item shows, or takes away."""

    name: str
    size: int
    address: str


@answer
class ItemChange(Answer):
    """What was done to an item, or would be by a dry run."""

    collection: str
    id: str
    action: str
    """withdraw, restore or rollback."""
    number: int
    """The number of the publication that it made, or would make."""
    shows: int | None
    """The number of the publication whose content is shown now; null where nothing is."""
    dry_run: bool
    objects: int
    bytes: int
    files: tuple[AffectedFile, ...]
    restorable_days: int | None
    """For how many days the item can be restored; null where it was not withdrawn."""


@answer
class CollectionAccess(Answer):
    """Who may see and write to a collection."""

    collection: str
    platform: str | None
    """The platform that it belongs to; null if that is unknown."""
    writers: tuple[str, ...]
    """The other platforms that may publish into it; they see all of it."""


@answer
class RemovedCollection(Answer):
    """A collection that was removed."""

    collection: str


@answer
class Signature(Answer):
    """A signature, and the id of its key."""

    keyid: str
    sig: str


@answer
class Envelope(Answer):
    """A signed manifest: a DSSE envelope with an in-toto statement."""

    payload_type: str = field(metadata={"alias": "payloadType"})
    payload: str
    """The statement, in base64."""
    signatures: tuple[Signature, ...]


@answer
class SigningKey(Answer):
    """The public half of a key that signed manifests."""

    id: str
    public_key: str
    """In PEM."""
    first_used_at: datetime
    retired_at: datetime | None
    """Since when it signs no more; what it signed stays valid."""
