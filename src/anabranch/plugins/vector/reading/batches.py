"""Small helpers for record batches: distinct names, valid text, slices."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Notes, Rows

__all__ = ["clean_text", "name_apart", "slice_batch"]


def name_apart(names: Sequence[str]) -> list[str]:
    """The names, those that are there twice with a number, so that each is of one column."""
    taken, apart = set(names), []
    seen: set[str] = set()
    for name in names:
        distinct, number = name, 2
        while distinct in seen or (distinct != name and distinct in taken):
            distinct, number = f"{name}_{number}", number + 1
        seen.add(distinct)
        apart.append(distinct)
    return apart


def slice_batch(batch: pa.RecordBatch, max_rows: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most so many rows."""
    for start in range(0, len(batch), max_rows):
        yield batch.slice(start, max_rows)


def clean_text(column: pa.Array, rows: "Rows", changed: "Notes") -> pa.Array:
    """A column whose text is UTF-8: bytes that are not become replacement characters, and their rows are noted."""
    text = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    if not (pa.types.is_string(text.type) or pa.types.is_large_string(text.type)):
        return column
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        values = text.cast(pa.large_binary()).to_pylist()
        decoded = [value if value is None else value.decode("utf-8", "replace") for value in values]
        bad = [
            int(row)
            for row, value, shown in zip(rows, values, decoded, strict=True)
            if value is not None and shown is not None and shown.encode() != value
        ]
        changed.add("text with invalid characters", bad)
        replaced = pa.array(decoded, text.type)
        return pa.ExtensionArray.from_storage(column.type, replaced) if text is not column else replaced
    return column
