"""The types of a CSV file's columns: the narrowest that holds every value exactly, else text."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.plugins.vector.reading.exact.decimals import MANY_DIGITS, is_exact

__all__ = ["DAY", "TIME", "ZONE", "ColumnKind", "TypeFinder"]

DAY, TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
ZONE = "(Z|[+-][0-9]{2}:?[0-9]{2})"


@dataclass(frozen=True)
class ColumnKind:
    """A type that text may be read as: what all values look like, and how they are converted."""

    type: pa.DataType
    pattern: str
    unless: str = ""  # no value may look like this
    commas: bool = False

    def convert(self, text: pa.Array) -> pa.Array:
        """The values; ArrowInvalid where one is no such value, like a 31st of February."""
        if self.type == pa.string():
            return text
        text = _leave_out_empty(text)
        if self.commas:
            text = pc.replace_substring(text, ",", ".")
        if pa.types.is_boolean(self.type):
            text = pc.utf8_lower(text)
        if pa.types.is_time(self.type):  # Arrow parses no times without a day
            text = pc.cast(pc.binary_join_element_wise("1970-01-01T", text, ""), pa.timestamp("us"))
        values = pc.cast(text, self.type)
        if pa.types.is_floating(self.type) and not pc.all(pc.is_finite(values)).as_py() and len(values.drop_null()):
            raise pa.ArrowInvalid("a number is too large")
        return values

    def keeps_digits(self, text: pa.Array) -> bool:
        """Whether numbers have no more digits than floating point: each is what such a number is written as."""
        if not pa.types.is_floating(self.type):
            return True
        plain = pc.replace_substring(text, ",", ".") if self.commas else text
        long = plain.filter(pc.match_substring_regex(plain, MANY_DIGITS))
        # Almost all are equal to the shortest text of their values.
        rest = long.filter(pc.not_equal(pc.cast(pc.cast(long, self.type), pa.string()), long))
        return all(is_exact(each) for each in rest.to_pylist())


TEXT = ColumnKind(pa.string(), "")
# Digits that floating point would round stay text, as do leading zeros and plus signs: they are names, not amounts.
KINDS = (
    ColumnKind(pa.bool_(), "(?i)^(true|false)$"),
    ColumnKind(pa.int64(), "^-?(0|[1-9][0-9]{0,18})$", "^-0$"),
    ColumnKind(pa.float64(), r"^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?$", "^-?[0-9]{16,}$"),
    ColumnKind(pa.date32(), f"^{DAY}$"),
    ColumnKind(pa.time64("us"), f"^{TIME}$"),
    ColumnKind(pa.timestamp("us"), f"^{DAY}[T ]{TIME}$"),
    ColumnKind(pa.timestamp("us", "UTC"), f"^{DAY}[T ]{TIME}{ZONE}$"),
)
COMMAS = ColumnKind(pa.float64(), "^-?(0|[1-9][0-9]*)(,[0-9]+)?$", "^-?[0-9]{16,}$", commas=True)


class TypeFinder:
    """Finds the type of a column, batch by batch: those that remain can hold all values so far."""

    def __init__(self, *, commas: bool) -> None:
        self._left = [*KINDS, COMMAS] if commas else list(KINDS)
        self._empty = True

    def add(self, text: pa.Array) -> None:
        """Look at more values; an empty text is one of a column of texts only."""
        text = _leave_out_empty(text)
        if not self._left or text.null_count == len(text):
            return
        self._empty = False
        self._left = [kind for kind in self._left if _holds(kind, text)]

    def found(self) -> ColumnKind:
        """The narrowest type; text where the column is empty."""
        return TEXT if self._empty or not self._left else self._left[0]


def _leave_out_empty(text: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(text, ""), None, text)


def _holds(kind: ColumnKind, text: pa.Array) -> bool:
    matches: Callable[[str], pa.Array] = lambda pattern: pc.match_substring_regex(text, pattern)  # noqa: E731
    if not pc.all(matches(kind.pattern)).as_py() or (kind.unless and pc.any(matches(kind.unless)).as_py()):
        return False
    try:
        kind.convert(text)
    except pa.ArrowInvalid:
        return False
    return kind.keeps_digits(text)
