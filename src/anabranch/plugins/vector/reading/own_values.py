"""Columns whose values we read or parse, since GDAL would change them; what is not of a column's type becomes null."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.plugins.vector.models import Notes

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["FindUnreadable", "OwnValues", "TakeRows", "cast_texts", "note_misfits"]

NOT_OF_ITS_TYPE = "not_of_its_type"
TakeRows = Callable[[pa.RecordBatch, "Rows"], dict[str, pa.Array]]
# What the file has as the geometries of some places of a batch of GDAL, whose rows have numbers.
FindUnreadable = Callable[[pa.RecordBatch, "Rows", "Rows"], dict[int, str]]


class OwnValues(Protocol):
    """Some columns of a layer."""

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of these columns by their names, of those and beside those that GDAL gives."""

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns their values for the next batch of GDAL and the numbers of its rows; notes what is lost."""


def cast_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of texts; null where one has no value of the type."""
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        return pa.array([_cast(text, kind) for text in texts], kind)


def _cast(text: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return None


def note_misfits(
    changed: Notes,
    rows: "Rows",
    texts: Mapping[str, pa.Array],
    values: Mapping[str, pa.Array],
    why: str = NOT_OF_ITS_TYPE,
) -> None:
    """Note the rows with texts that have no value; each counts once."""
    found: dict[int, str] = {}
    for name, column in texts.items():
        lost = pc.and_(column.is_valid(), values[name].is_null()).to_numpy(zero_copy_only=False)
        for place in np.flatnonzero(lost).tolist():
            found.setdefault(place, f"column {name}: {column[place].as_py()}")
    changed.add(why, rows[list(found)].tolist(), list(found.values()))
