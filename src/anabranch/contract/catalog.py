"""What is published."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from html import escape

from anabranch.contract.answer import Answer, JsonObject, JsonValue, answer

__all__ = ["Envelope", "Item", "Publication", "PublishedItem", "Signature", "SigningKey"]


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

    def __str__(self) -> str:
        time = self.properties.get("datetime") or self.properties.get("start_datetime") or "no time"
        return f"{self.collection}/{self.id} ({time}): {', '.join(self.assets)}"

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
