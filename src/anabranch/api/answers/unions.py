"""One mistake for a value that fits no branch of a union: pydantic has one for each branch, at a place of its own."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

__all__ = ["merge_unions"]

# The labels of branches, with the start of the types of their errors, and what each takes.
BRANCHES = {
    "str": ("string_", "a text"),
    "constrained-str": ("string_", "a text"),
    "int": ("int_", "a whole number"),
    "constrained-int": ("int_", "a whole number"),
    "float": ("float_", "a number"),
    "bool": ("bool_", "true or false"),
}
Found = Mapping[str, Any]  # as pydantic has it


def merge_unions(errors: Sequence[Found]) -> list[Found]:
    """The errors of pydantic, with one for each value: what a branch of its type says of it, or what all take."""
    merged: list[Found] = []
    for place, group in groupby(errors, key=_find_union):
        found = list(group)
        if place is None or len(found) == 1:
            merged += found
            continue
        said = next((each for each in found if not each["type"].endswith("_type")), None)
        takes = " or ".join(dict.fromkeys(BRANCHES[each["loc"][-1]][1] for each in found))
        told = said or {"type": "union", "msg": f"Input should be {takes}"}
        merged.append({**told, "loc": place})
    return merged


def _find_union(error: Found) -> tuple[str | int, ...] | None:
    """The place of the value, if the error may be that of a branch."""
    place = tuple(error["loc"])
    branch = BRANCHES.get(str(place[-1])) if place else None
    return place[:-1] if branch and error["type"].startswith(branch[0]) else None
