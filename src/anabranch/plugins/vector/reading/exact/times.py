"""Times that GDAL gives as text, which has their zones: its own type of times drops them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.plugins.vector.models import Notes
from anabranch.plugins.vector.reading.exact.columns import TakeRows, note_misfits, parse_texts

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["TimeTexts", "is_time", "parse_time"]

_TYPE = b"GDAL:OGR:type"
_ZONE = "(Z|[+-][0-9]{2}:?[0-9]{2})$"


@dataclass(frozen=True)
class TimeTexts:
    """The columns of times of a layer; `read` gives the batches of some columns.

    Where all times of a column have a zone, it has, too; where only some have, it stays text.
    """

    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of the columns."""
        names = [field.name for field in given if is_time(field)]
        zoned, plain = set(), set()
        for batch in self.read(names) if names else ():
            for name in names:
                has_zone = pc.match_substring_regex(_trim(batch.column(name)), _ZONE)
                zoned |= {name} if pc.any(has_zone).as_py() else set()
                plain |= {name} if pc.any(pc.invert(has_zone)).as_py() else set()
        types = {name: pa.timestamp("us", "UTC" if name in zoned else None) for name in names}
        return {**types, **dict.fromkeys(zoned & plain, pa.string())}

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns the values of rows."""

        def take(batch: pa.RecordBatch, rows: "Rows") -> dict[str, pa.Array]:
            texts = {name: _trim(batch.column(name)) for name in types}
            values = {name: parse_texts(texts[name], kind) for name, kind in types.items()}
            note_misfits(changed, rows, texts, values, "impossible_date")
            return values

        return take


def is_time(field: pa.Field) -> bool:
    """Whether a column of texts is one of times."""
    return bool((field.metadata or {}).get(_TYPE) == b"DateTime")


def _trim(texts: pa.Array) -> pa.Array:
    """The texts; GDAL puts NULs behind those of times in the first half of a millisecond."""
    return pc.utf8_rtrim(texts, "\0")


def parse_time(text: str, *, has_zone: bool) -> datetime | None:
    """The time of a text like 2024-01-05T10:00:00Z or 2024/01/05 10:00; it is in UTC if it does not say."""
    try:
        found = datetime.fromisoformat(text.strip().replace("/", "-"))
        aware = found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return aware if has_zone else aware.replace(tzinfo=None)
