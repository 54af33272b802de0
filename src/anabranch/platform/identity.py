"""The ids of assets and releases: they follow from the platform and its references, and never change (P1, P2)."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.canonical import canonical, sha256
from anabranch.errors import InputError

__all__ = ["Identity", "References", "identify", "name_table"]

ID_CHARS = 32
SUFFIX_CHARS = 20
MAX_NAME_CHARS = 40
MAX_REFERENCE_CHARS = 200
References = Mapping[str, str | int]


@dataclass(frozen=True)
class Identity:
    """What a platform's references name: an asset, and a release of it."""

    platform: str
    refs: Mapping[str, str]
    """Without the version."""
    version: str | None
    asset_id: str
    release_id: str

    @property
    def item_id(self) -> str:
        """The id of the release's item: readable, and unique by its end."""
        words = re.sub(r"[^a-z0-9]+", "-", "-".join(self.refs.values()).lower()).strip("-")[:MAX_NAME_CHARS].strip("-")
        return f"{words or 'item'}-{self.release_id[:SUFFIX_CHARS]}"

    @property
    def table(self) -> str:
        """The name of the release's table in schema geo."""
        return name_table(self.item_id)


def identify(
    platform: str, required: tuple[str, ...], optional: tuple[str, ...], version_ref: str | None, given: References
) -> Identity:
    """The asset and the release that references name; InputError names every reference that is missing or unknown."""
    known = {*required, *optional, *((version_ref,) if version_ref else ())}
    values = {name: text for name, value in given.items() if (text := _write(value))}
    wrong = [f"{name!r} is missing" for name in required if name not in values]
    wrong += [f"{name!r} is not one of them" for name in given if name not in known]
    wrong += [f"{name!r} is neither a text nor a number" for name, value in given.items() if isinstance(value, bool)]
    wrong += [
        f"{name!r} is not 1 to {MAX_REFERENCE_CHARS} printable characters"
        for name, value in values.items()
        if len(value) > MAX_REFERENCE_CHARS or not value.isprintable()
    ]
    if wrong:
        remedy = f"The references of platform {platform} are {', '.join(sorted(known))}."
        raise InputError("platform.references", f"references: {'; '.join(wrong)}", remedy=remedy)
    version = values.pop(version_ref, None) if version_ref else None
    refs = dict(sorted(values.items()))
    versioned = {**refs, version_ref: version} if version_ref else refs
    return Identity(platform, refs, version, _digest(platform, refs), _digest(platform, versioned))


def name_table(item_id: str) -> str:
    """The name of the table of a release's item."""
    words = item_id.replace("-", "_")
    return words if words[0].isalpha() else f"t_{words}"


def _write(value: str | int) -> str:
    """A reference as text; the same characters are the same text, however they are composed."""
    return unicodedata.normalize("NFC", str(value)).strip()


def _digest(platform: str, refs: Mapping[str, str | None]) -> str:
    return sha256(canonical({"platform": platform, "refs": dict(refs)}))[:ID_CHARS]
