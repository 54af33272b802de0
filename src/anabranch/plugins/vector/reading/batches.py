"""Record batches of any format: distinct names, slices, and how many rows there must be."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from anabranch.errors import Permanent

__all__ = ["check_count", "make_unique", "slice_batch"]


def check_count(file: str, rows: int | None, read: int) -> None:
    """Refuse a file that has other rows than were read of it, where it says how many it has (V1)."""
    if rows is not None and read != rows:
        raise Permanent(
            f"{file} has {rows:,} features, and {read:,} of them can be read",
            code="vector.damaged",
            remedy="Upload it again; open it elsewhere to check that it is complete.",
        )


def make_unique(names: Sequence[str]) -> list[str]:
    """The names, with numbers behind duplicates."""
    taken, unique = set(names), []
    seen: set[str] = set()
    for name in names:
        distinct, number = name, 2
        while distinct in seen or (distinct != name and distinct in taken):
            distinct, number = f"{name}_{number}", number + 1
        seen.add(distinct)
        unique.append(distinct)
    return unique


def slice_batch(batch: pa.RecordBatch, max_rows: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most so many rows."""
    for start in range(0, len(batch), max_rows):
        yield batch.slice(start, max_rows)
