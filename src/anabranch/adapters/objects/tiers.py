"""The tiers and the work area by their URLs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.objects.open_store import Options
from anabranch.storage.tiers import Storage, Tier

__all__ = ["Place", "open_storage"]


@dataclass(frozen=True)
class Place:
    """Where a tier or the work area is, the options of its store, which are secret, and whether it is in the home."""

    tier: str
    url: str
    options: Options = field(default_factory=dict, repr=False)
    ours: bool = True


def open_storage(places: Sequence[Place], spool: Path) -> Storage:
    """The tiers and the work area at these places, without asking them anything; what comes in pieces for a cloud is
    spooled here."""
    return Storage({place.tier: _open(place, spool) for place in places})


def _open(place: Place, spool: Path) -> Tier:
    parts = urlsplit(place.url)
    if parts.scheme == "file":
        return Folder(Path(unquote(parts.path)), place.tier, ours=place.ours)
    from anabranch.adapters.objects.bucket import Bucket

    return Bucket(place.tier, place.url, place.options, spool)
