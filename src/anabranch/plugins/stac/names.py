"""Checks of ids and addresses, before anything is built from them (S2)."""

import re

from anabranch.errors import InputError

__all__ = [
    "MAX_ITEM_ID_CHARS",
    "check_collection_id",
    "check_item_id",
    "is_collection_id",
    "is_item_id",
    "require_collection_id",
    "require_item_id",
    "split_address",
]

# No dot at an end and no two in a row: an id is one path segment wherever it is used.
ID = re.compile(r"[A-Za-z0-9](?:\.?[A-Za-z0-9_-])*", re.ASCII)
MAX_COLLECTION_ID_CHARS = 63
MAX_ITEM_ID_CHARS = 128
ADDRESS = re.compile(r"(bronze|silver|gold)://([^\x00-\x1f\x7f\\]+)")
MAX_KEY_BYTES = 1_024
RULE = "Use letters a to z, digits, '-', '_' and single dots, beginning with a letter or digit; at most {} characters."


def is_collection_id(value: str) -> bool:
    """Whether a collection can have this id."""
    return _fits(value, MAX_COLLECTION_ID_CHARS)


def is_item_id(value: str) -> bool:
    """Whether an item can have this id."""
    return _fits(value, MAX_ITEM_ID_CHARS)


def check_collection_id(value: str) -> str:
    """The id, if it is valid for a collection."""
    if not is_collection_id(value):
        what = f"{_shown(value)} is not a valid id of a collection"
        raise InputError("catalog.collection_id", what, remedy=RULE.format(MAX_COLLECTION_ID_CHARS))
    return value


def check_item_id(value: str) -> str:
    """The id, if it is valid for an item."""
    if not is_item_id(value):
        what = f"{_shown(value)} is not a valid id of an item"
        raise InputError("catalog.item_id", what, remedy=RULE.format(MAX_ITEM_ID_CHARS))
    return value


def require_collection_id(value: str) -> str:
    """The same for validators of requests: a ValueError says what is wrong."""
    if not is_collection_id(value):
        raise ValueError(f"{value[:80]!r} can't be the id of a collection. {RULE.format(MAX_COLLECTION_ID_CHARS)}")
    return value


def require_item_id(value: str | None) -> str | None:
    """The same for the id of an item, if one is given."""
    if value is not None and not is_item_id(value):
        raise ValueError(f"{value[:80]!r} can't be the id of an item. {RULE.format(MAX_ITEM_ID_CHARS)}")
    return value


def split_address(address: str) -> tuple[str, str]:
    """The tier and the key of an address like silver://jobs/1/dem.tif."""
    found = ADDRESS.fullmatch(address)
    if found is None or {"", ".", ".."} & set(found[2].split("/")) or len(found[2].encode()) > MAX_KEY_BYTES:
        raise InputError(
            "catalog.address",
            f"{_shown(address)} is not the address of an object",
            remedy="Use an address that storage returned, like silver://path/of/the/object.tif.",
        )
    return found[1], found[2]


def _fits(value: str, max_chars: int) -> bool:
    return len(value) <= max_chars and ID.fullmatch(value) is not None


def _shown(value: str) -> str:
    return ascii(value if len(value) <= 80 else f"{value[:80]}…")
