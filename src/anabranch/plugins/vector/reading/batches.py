"""Record batches of any format: distinct names, slices, and how many rows there must be."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from anabranch.errors import Permanent

__all__ = ["check_count", "name_apart", "slice_batch"]


def check_count(file: str, rows: int | None, read: int) -> None:
    """Refuse a file that has other rows than were read of it, where it says how many it has (V1)."""
    if rows is not None and read != rows:
        raise Permanent(
            f"{file} has {rows:,} features, and {read:,} of them can be read",
            code="vector.damaged",
            remedy="Upload it again; open it elsewhere to check that it is complete.",
        )


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
