"""Rows for PostgreSQL: what is in the files, as psycopg reads its fields."""

import hashlib
import json
import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import Format

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ColumnType
from anabranch.plugins.vector.tables import chunk_writer
from anabranch.plugins.vector.tables.copy_format import DATE_RANGE, HEADER, TIMESTAMP_RANGE, TRAILER, encode_rows
from anabranch.plugins.vector.tables.numeric import encode_numeric
from tests.support.copy_rows import columns_of, make_batch, read_fields, write_rows

VALUES = {
    "boolean": st.booleans(),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(width=32),
    "double": st.floats(),
    "numeric": st.decimals(allow_nan=False).map(str) | st.just("NaN"),
    "text": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)),
    "jsonb": st.sampled_from(["null", "[1, 2]", '{"é": 1}']),
    "bytea": st.binary(),
}
READ: dict[str, Callable[[str], Any]] = {"numeric": Decimal, "jsonb": json.loads}


def decode(stream: bytes, types: list[str]) -> list[list[Any]]:
    """What psycopg reads, without gid and geometry."""
    transformer = Transformer()
    transformer.set_loader_types([psycopg.adapters.types[name].oid for name in types], Format.BINARY)
    return [list(transformer.load_sequence(fields[2:])) for fields in read_fields(stream)]


def comparable(value: Any) -> Any:
    """A float by its bits (which no NaN differs in for us), and all else as it is."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    return str(value) if isinstance(value, Decimal) and value.is_nan() else value


@settings(max_examples=60)
@given(st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), max_size=5))
def test_psycopg_reads_every_value_as_it_was(rows: list[dict[str, Any]]) -> None:
    columns = columns_of(*(ColumnType[name.upper()] for name in VALUES))
    batch = make_batch(["POINT (1 2)"] * len(rows), **{name: [row[name] for row in rows] for name in VALUES})
    encoded = encode_rows(batch.geometry, batch.attributes, columns, np.arange(len(rows)))
    stream = HEADER + b"".join(encoded.to_pylist()) + TRAILER
    for found, row in zip(decode(stream, [column.type.value for column in columns]), rows, strict=True):
        expected = [row[name] if row[name] is None or name not in READ else READ[name](row[name]) for name in VALUES]
        assert [comparable(value) for value in found] == [comparable(value) for value in expected]


@pytest.mark.parametrize("flat", ["POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON"])
@pytest.mark.parametrize("dimensions", ["", " Z"])
def test_geometries_are_ewkb_and_lines_and_polygons_are_multi(flat: str, dimensions: str, tmp_path: Path) -> None:
    z = " 5" if dimensions else ""
    ring = f"(0 0{z}, 1 0{z}, 1 1{z}, 0 0{z})"
    body = {
        "POINT": f"(1 2{z})", "LINESTRING": f"(1 2{z}, 3 4{z})", "POLYGON": f"({ring})",
        "MULTIPOINT": f"((1 2{z}), (3 4{z}))",
        "MULTILINESTRING": f"((1 2{z}, 3 4{z}))", "MULTIPOLYGON": f"(({ring}))",
    }[flat]  # fmt: skip
    texts = [f"{flat}{dimensions} {body}", f"{flat}{dimensions} {body}"]
    written = write_rows(tmp_path, make_batch(texts))
    shapes = [shapely.from_wkb(fields[1]) for fields in read_fields((tmp_path / written.chunks[0]).read_bytes())]
    is_single = flat in ("LINESTRING", "POLYGON")
    multi = [f"MULTI{flat}{dimensions} ({body})" if is_single else text for text in texts]
    assert [shapely.to_wkt(shape) for shape in shapes] == [shapely.to_wkt(shapely.from_wkt(text)) for text in multi]
    assert {shapely.get_srid(shape) for shape in shapes} == {4326}
    assert written.has_z == bool(dimensions)
    assert {name.upper() for name in written.geometry_types} == {flat}


def test_kinds_of_points_may_be_mixed(tmp_path: Path) -> None:
    texts = ["POINT (1 2)", "POINT Z (1 2 3)", "POINT EMPTY", "MULTIPOINT ((1 2), (3 4))"]
    for part in (texts, texts[:1] + texts[2:3], texts[:2]):
        written = write_rows(tmp_path, make_batch(part))
        fields = read_fields((tmp_path / written.chunks[0]).read_bytes())
        expected = [shapely.to_wkb(shapely.set_srid(shapely.from_wkt(text), 4326), include_srid=True) for text in part]
        assert [row[1] for row in fields] == expected
        assert written.bounds == ((1, 2, 3, 4) if part is texts else (1, 2, 1, 2))


def test_a_missing_geometry_is_refused() -> None:
    with pytest.raises(Permanent, match="1 geometries are missing: rows without one must be dropped before"):
        encode_rows(np.array([shapely.Point(1, 2), None]), pa.record_batch({}), (), np.arange(2))


def test_chunks_are_whole_streams_cut_between_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is larger than a chunk has one of its own, and row numbers go on over batches and chunks."""
    monkeypatch.setattr(chunk_writer, "ENCODED_ROWS", 4)
    texts = [["a"] * 10, ["b" * 5_000, "c"], [], ["d"] * 9]
    written = write_rows(
        tmp_path, *(make_batch(["POINT (1 2)"] * len(part), text=part) for part in texts), chunk_bytes=200
    )
    streams = [(tmp_path / name).read_bytes() for name in written.chunks]
    rows = [list(read_fields(stream)) for stream in streams]
    assert [len(part) for part in rows] == list(written.chunk_rows)
    assert sum(written.chunk_rows) == written.rows == 21
    assert [len(stream) > 200 for stream in streams].count(True) == 1
    everything = [row for part in rows for row in part]
    assert [struct.unpack(">q", row[0] or b"")[0] for row in everything] == list(range(1, 22))
    assert [(row[2] or b"").decode() for row in everything] == [text for part in texts for text in part]
    assert written.sha256 == hashlib.sha256(b"".join(streams)).hexdigest()
    assert written.chunks[:2] == ("rows-00000.copy", "rows-00001.copy")


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    written = write_rows(tmp_path, make_batch([], text=[]))
    assert (written.rows, written.chunks, written.bounds) == (0, (), None)
    assert not list(tmp_path.iterdir())


def test_a_part_of_a_batch_is_encoded_as_it_is() -> None:
    """Arrow's slices share buffers, bitmaps included, and begin anywhere in them."""
    count = 21
    values: dict[str, list[Any]] = {
        "boolean": [None if n % 3 == 0 else n % 2 == 0 for n in range(count)],
        "integer": [None if n % 4 == 0 else n for n in range(count)],
        "text": [None if n % 5 == 0 else str(n) for n in range(count)],
        "numeric": [None if n % 6 == 0 else str(n) for n in range(count)],
        "date": [None if n % 7 == 0 else date(2020, 1, n) for n in range(count)],
        "jsonb": [None if n % 8 == 0 else str(n) for n in range(count)],
    }
    columns = columns_of(*(ColumnType[name.upper()] for name in values))
    whole = make_batch(["POINT (1 2)"] * count, **values)
    part = make_batch(["POINT (1 2)"] * 8, **{name: given[5:13] for name, given in values.items()})
    expected = encode_rows(part.geometry, part.attributes, columns, np.arange(8))
    assert encode_rows(whole.geometry[5:13], whole.attributes.slice(5, 8), columns, np.arange(8)).equals(expected)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("date", DATE_RANGE[0] - 1), ("date", DATE_RANGE[1] + 1), ("date", -(2**31) + 10_957),
     ("timestamp", TIMESTAMP_RANGE[0] - 1), ("timestamptz", -(2**63)), ("time", -1), ("time", 86_400_000_001)],
)  # fmt: skip
def test_what_postgresql_cannot_hold_is_refused(kind: str, value: int) -> None:
    """A difference that wraps would be another date, or infinity."""
    column = columns_of(ColumnType[kind.upper()])
    batch = make_batch(["POINT (1 2)"], **{kind: pa.array([value], pa.int32() if kind == "date" else pa.int64()).view(
        {"date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
         "timestamptz": pa.timestamp("us", "UTC")}[kind])})  # fmt: skip
    with pytest.raises(Permanent, match=rf"column '{kind}': has values that PostgreSQL's type can't hold"):
        encode_rows(batch.geometry, batch.attributes, column, np.arange(1))


def test_another_arrow_type_is_refused() -> None:
    batch = make_batch(["POINT (1 2)"], integer=pa.array([1], pa.int64()))
    with pytest.raises(Permanent, match="column 'integer': integer is made of int32, and not of int64"):
        encode_rows(batch.geometry, batch.attributes, columns_of(ColumnType.INTEGER), np.arange(1))


@pytest.mark.parametrize(
    "text", ["", ".", "-", "1.2.3", "1_000", " 1", "0x1", "1e", "1e9999999", "\u0661", "sNaN", "1e200000", "1e-16384"]
)
def test_text_that_is_no_numeric_is_refused(text: str) -> None:
    with pytest.raises(Permanent, match=r"is no decimal number|has over \d+ digits (before|after) the point"):
        encode_numeric(pa.array(["1", text]))


def test_times_at_the_edges_are_exact(tmp_path: Path) -> None:
    values = [time(0), time(23, 59, 59, 999999)]
    stamps = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    written = write_rows(tmp_path, make_batch(["POINT (1 2)"] * 2, time=values, timestamptz=stamps))
    assert decode((tmp_path / written.chunks[0]).read_bytes(), ["time", "timestamptz"]) == [
        [time, stamp] for time, stamp in zip(values, stamps, strict=True)
    ]
