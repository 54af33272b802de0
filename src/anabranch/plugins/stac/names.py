"""Names that stand in addresses: checked before anything is made of them (S2)."""

import re

from anabranch.errors import InputError

__all__ = ["check_collection_id", "check_item_id", "split_address"]

# No dot at an end and no two in a row: an id is one segment of a path wherever it is shown.
ID = re.compile(r"[A-Za-z0-9](?:\.?[A-Za-z0-9_-])*", re.ASCII)
LONGEST_COLLECTION = 63
LONGEST_ITEM = 128
ADDRESS = re.compile(r"(bronze|silver|gold)://([^\x00-\x1f\x7f\\]+)")
LONGEST_KEY = 1_024
RULE = "Use letters a to z, digits, '-', '_' and single dots, beginning with a letter or digit; at most {} characters."


def check_collection_id(value: str) -> str:
    """The id, if a collection may have it."""
    if not _fits(value, LONGEST_COLLECTION):
        what = f"a collection can't be called {_shown(value)}"
        raise InputError("catalog.collection_id", what, remedy=RULE.format(LONGEST_COLLECTION))
    return value


def check_item_id(value: str) -> str:
    """The id, if an item may have it."""
    if not _fits(value, LONGEST_ITEM):
        what = f"an item can't be called {_shown(value)}"
        raise InputError("catalog.item_id", what, remedy=RULE.format(LONGEST_ITEM))
    return value


def split_address(address: str) -> tuple[str, str]:
    """The tier and the key of an address like silver://jobs/1/dem.tif."""
    found = ADDRESS.fullmatch(address)
    if found is None or {"", ".", ".."} & set(found[2].split("/")) or len(found[2].encode()) > LONGEST_KEY:
        raise InputError(
            "catalog.address",
            f"{_shown(address)} is no address of an object",
            remedy="Give one that storage answered, like silver://path/of/the/object.tif.",
        )
    return found[1], found[2]


def _fits(value: str, longest: int) -> bool:
    return len(value) <= longest and ID.fullmatch(value) is not None


def _shown(value: str) -> str:
    return ascii(value if len(value) <= 80 else f"{value[:80]}…")
