"""Limits of one search, the same for CQL2 text, JSON and GeoJSON."""

import math
from dataclasses import dataclass
from typing import NoReturn, TypeGuard

from anabranch.errors import InputError

__all__ = ["BOUNDS", "Bounds", "is_finite", "refuse"]


@dataclass(frozen=True)
class Bounds:
    """The maximum of each thing; a search within them takes the API and the database a fraction of a second."""

    text_length: int = 4_000  # of a filter in CQL2 text
    text_steps: int = 16_000  # of its parser, which takes 2 microseconds for each
    depth: int = 20
    operators: int = 100
    values: int = 1_000
    value_length: int = 1_000
    points: int = 5_000
    ids: int = 1_000
    names: int = 50  # in fields, and in sortby
    name_levels: int = 10
    page: int = 1_000


BOUNDS = Bounds()


def refuse(message: str, remedy: str = "Request less, or split it into several searches.") -> NoReturn:
    """Refuse a search."""
    raise InputError("catalog.query", message, remedy=remedy)


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether a value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
