"""Columns have faithful types, and values that PostgreSQL refuses are repaired and noted (V1)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import ColumnType, Family, Notes, SourceBatch
from tests.support.vector_batches import Cleaned, clean, make_layer

BERLIN = pa.timestamp("ns", "Europe/Berlin")
MOMENT = datetime(2024, 2, 29, 12, 30, 1, 250_000)  # noqa: DTZ001 it is naive in the column, too


def clean_column(array: pa.Array, field: pa.Field | None = None) -> Cleaned:
    schema = pa.schema([field]) if field else None
    return clean(make_layer(["POINT(1 2)"] * len(array), {"value": array}, schema=schema))


def samples(cleaned: Cleaned, what: str) -> list[tuple[int, str]]:
    return [(sample.row, sample.what) for sample in cleaned.report.changed[what].samples]


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array([True, None]), "boolean", [True, None]),
        (pa.array([1, -1], pa.int8()), "integer", [1, -1]),
        (pa.array([65_535], pa.uint16()), "integer", [65_535]),
        (pa.array([4_294_967_295], pa.uint32()), "bigint", [4_294_967_295]),
        (pa.array([2**53 + 1, None], pa.int64()), "bigint", [2**53 + 1, None]),
        (pa.array([2**64 - 1], pa.uint64()), "numeric", ["18446744073709551615"]),
        (pa.array([1.5], pa.float32()), "real", [1.5]),
        (pa.array(np.array([1.5], np.float16)), "real", [1.5]),
        (pa.array([0.1]), "double precision", [0.1]),
        (pa.array([Decimal("-12.50"), None]), "numeric", ["-12.50", None]),
        (pa.array([Decimal("0.0000000100")]), "numeric", ["0.0000000100"]),
        (pa.array(["a", None]), "text", ["a", None]),
        (pa.array(["a"], pa.large_string()), "text", ["a"]),
        (pa.array(["a"], pa.string_view()), "text", ["a"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "text", ["a", "b", "a"]),
        (pa.nulls(2), "text", [None, None]),
        (pa.array([date(2024, 2, 29), None]), "date", [date(2024, 2, 29), None]),
        (pa.array([date(1969, 12, 31)], pa.date64()), "date", [date(1969, 12, 31)]),
        (pa.array([time(1, 2, 3)], pa.time32("s")), "time", [time(1, 2, 3)]),
        (pa.array([MOMENT], pa.timestamp("ms")), "timestamp", [MOMENT]),
        (pa.array([MOMENT.replace(tzinfo=UTC)], BERLIN), "timestamptz", [MOMENT.replace(tzinfo=UTC)]),
        (pa.array([b"\0\1"]), "bytea", [b"\0\1"]),
        (pa.array([b"ab"], pa.binary(2)), "bytea", [b"ab"]),
        (pa.array([[1, 2], None]), "jsonb", ["[1, 2]", None]),
        (pa.array([{"a": "ü", "b": None}]), "jsonb", ['{"a": "ü", "b": null}']),
        (pa.array([{"a": date(2024, 1, 2)}]), "jsonb", ['{"a": "2024-01-02"}']),
    ],
)  # fmt: skip
def test_a_column_keeps_its_type_and_its_values(array: pa.Array, kind: str, values: list[object]) -> None:
    cleaned = clean_column(array)

    assert cleaned.report.columns[0].type == kind
    assert cleaned.column("value") == values
    assert cleaned.batches[0].attributes.schema.types == [ARROW_TYPES[ColumnType(kind)]]
    assert cleaned.changes() == {}


@pytest.mark.parametrize(
    "field",
    [
        pa.field("value", pa.string(), metadata={"ARROW:extension:name": "arrow.json"}),
        pa.field("value", pa.json_(pa.string())),
    ],
)
def test_texts_of_json_stay_as_they_are(field: pa.Field) -> None:
    texts = ['{"a":  12345678901234567890.10}', "[1,2]", "null", None, '"\\u00fc"']
    array = pa.array(texts, pa.string())
    cleaned = clean_column(array.cast(field.type) if isinstance(field.type, pa.BaseExtensionType) else array, field)

    assert cleaned.report.columns[0].type == "jsonb"
    assert cleaned.column("value") == texts
    assert cleaned.changes() == {}


@pytest.mark.parametrize(
    ("text", "repaired", "what"),
    [
        ('{"a": NaN, "b": 1}', {"a": None, "b": 1}, "json_not_finite"),
        ("[Infinity]", [None], "json_not_finite"),
        ('{"a": 1e200000, "b": 1.5}', {"a": None, "b": 1.5}, "json_not_finite"),
        ('{"a": -1e400}', {"a": None}, "json_not_finite"),
        ('{"a": 1e-20000}', {"a": 0.0}, "json_number"),
        (f'{{"a": 0.{"0" * 20_000}1}}', {"a": 0.0}, "json_number"),
        (f'{{"a": 1.{"5" * 500}}}', {"a": float("1." + "5" * 500)}, "json_number"),
        (f'{{"a": {"9" * 5_000}}}', f'{{"a": {"9" * 5_000}}}', "json_invalid"),
        ('["a\\u0000b"]', ["ab"], "json_text"),
        ('["\\ud800"]', ["?"], "json_text"),
        ("{broken", "{broken", "json_invalid"),
        ("a\0b", "ab", "json_invalid"),
        ("[" * 100_000, "[" * 100_000, "json_invalid"),
    ],
)
def test_v1_json_that_postgresql_refuses_is_repaired(text: str, repaired: object, what: str) -> None:
    field = pa.field("value", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})
    cleaned = clean_column(pa.array(["{}", text]), field)

    assert json.loads(str(cleaned.column("value")[1])) == repaired
    assert samples(cleaned, what) == [(2, "column value")]


def test_v1_json_of_lists_with_numbers_that_are_not_finite_is_repaired() -> None:
    cleaned = clean_column(pa.array([[1.5, float("nan")], [2.0]]))
    assert cleaned.column("value") == ["[1.5, null]", "[2.0]"]
    assert cleaned.changes() == {"json_not_finite": 1}


def test_v1_nul_characters_are_removed_from_text() -> None:
    cleaned = clean_column(pa.array(["a\0b\0", "fine", None, "\0"]))
    assert cleaned.column("value") == ["ab", "fine", None, ""]
    assert samples(cleaned, "nul_removed") == [(1, "column value"), (4, "column value")]


def test_v1_text_that_is_not_utf_8_is_replaced() -> None:
    latin = pa.array(["ü".encode("latin-1"), "ü".encode(), None], pa.binary())
    text = pa.StringArray.from_buffers(3, latin.buffers()[1], latin.buffers()[2], latin.buffers()[0])
    cleaned = clean_column(text)

    assert cleaned.column("value") == ["\ufffd", "ü", None]
    assert samples(cleaned, "not_utf8") == [(1, "column value")]


def timestamps(numbers: list[int | None], unit: str) -> pa.Array:
    return pa.array(numbers, pa.int64()).cast(pa.timestamp(unit, "UTC"))


@pytest.mark.parametrize(
    "array",
    [
        timestamps([0, 1_456_218_000_000, None], "s"),  # year 48113: milliseconds that were taken for seconds
        timestamps([0, 2**62, None], "s"),
        timestamps([0, -(2**62), None], "ms"),
        timestamps([0, 2**62, None], "us"),
        pa.array([0, 2**31 - 1, None], pa.int32()).cast(pa.date32()),
        pa.array([0, 2**62, None], pa.int64()).cast(pa.date64()),
        pa.array([0, 90_000, None], pa.int32()).cast(pa.time32("s")),
    ],
)
def test_v1_impossible_dates_become_null(array: pa.Array) -> None:
    cleaned = clean_column(array)

    first, second, third = cleaned.column("value")
    assert first is not None
    assert (second, third) == (None, None)
    assert samples(cleaned, "impossible_date") == [(2, "column value")]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_dates_from_the_year_1_to_9999_are_kept(unit: str) -> None:
    ends = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)]
    cleaned = clean_column(pa.array(ends, pa.timestamp(unit, "UTC")))
    assert cleaned.column("value") == ends
    assert cleaned.changes() == {}


def test_v1_a_row_that_is_repaired_in_two_columns_counts_once() -> None:
    columns = {"a": pa.array(["x\0", "y"]), "b": pa.array(["\0", "z\0"])}
    cleaned = clean(make_layer(["POINT(1 2)", "POINT(3 4)"], columns))
    assert samples(cleaned, "nul_removed") == [(1, "column a"), (2, "column b")]


def test_v1_values_of_dropped_rows_are_not_noted_and_the_others_stay_with_their_rows() -> None:
    columns = {"text": pa.array(["\0", "b", "c"]), "number": pa.array([1, 2, 3])}
    cleaned = clean(make_layer([None, "LINESTRING(0 0,1 1)", "POINT(1 2)"], columns))

    assert cleaned.changes() == {}
    assert (cleaned.column("text"), cleaned.column("number")) == (["c", "b"], [3, 2])


def test_v1_columns_with_reserved_and_equal_names_are_renamed_and_reported() -> None:
    names = ["id", "geom", "gid", "user", "Name", "name", "1st", ""]
    report = clean(make_layer(["POINT(1 2)"], {name: pa.array([1]) for name in names})).report

    assert {column.source: column.name for column in report.columns} == {
        "id": "id", "geom": "geom_1", "gid": "gid_1", "user": "_user", "Name": "name_1", "name": "name", "1st": "_1st",
        "": "column_8",
    }  # fmt: skip
    assert report.warnings == (
        "Columns were renamed: geom -> geom_1, gid -> gid_1, user -> _user, Name -> name_1, 1st -> _1st,  -> column_8.",
    )


def test_columns_of_the_same_name_are_both_kept() -> None:
    schema = pa.schema([("same", pa.int64()), ("same", pa.int64())])
    cleaned = clean(make_layer(["POINT(1 2)"], {"1": pa.array([1]), "2": pa.array([2])}, schema=schema))
    assert (cleaned.column("same"), cleaned.column("same_1")) == ([1], [2])


def test_a_layer_may_have_no_columns() -> None:
    cleaned = clean(make_layer(["POINT(1 2)", None, "LINESTRING(0 0,1 1)"], {}))
    assert (cleaned.report.written, cleaned.report.columns) == (2, ())


def test_a_layer_with_2000_columns_is_refused() -> None:
    columns = {f"c{number}": pa.array([1]) for number in range(2_000)}
    with pytest.raises(Permanent, match="has 2,000 columns, and 1,500 are allowed") as caught:
        clean(make_layer(["POINT(1 2)"], columns))
    assert caught.value.code == "vector.columns"


def test_v1_json_with_text_that_is_not_utf_8_is_repaired() -> None:
    latin = pa.array([b"\xfc", b'"ok"'], pa.binary())
    text = pa.StringArray.from_buffers(2, *latin.buffers()[1:])
    field = pa.field("value", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})
    assert clean_column(text, field).column("value") == ['"\ufffd"', '"ok"']

    lists = clean_column(pa.ListArray.from_arrays([0, 1, 2], text))
    assert lists.column("value") == [None, '["\\"ok\\""]']
    assert lists.changes() == {"not_utf8": 1}


def test_rows_of_every_type_can_be_dropped() -> None:
    columns = {
        "view": pa.array(["a", "b"], pa.string_view()),
        "dictionary": pa.array(["a", "b"]).dictionary_encode(),
        "numbers": pa.array([7, 9]).dictionary_encode(),
        "list": pa.array([[1], [2]]),
        "json": pa.array(["1", "2"]).cast(pa.json_(pa.string())),
    }
    cleaned = clean(make_layer([None, "POINT(1 2)"], columns))

    assert [cleaned.column(name) for name in columns] == [["b"], ["b"], [9], ["[2]"], ["2"]]


def test_v1_a_layer_without_columns_is_divided_by_its_kinds_of_geometry() -> None:
    layer = make_layer(["POINT (1.5 2)", "LINESTRING (1 2, 3 4)", None, "POINT (1.7 2)"], {})

    def read(max_rows: int, dropped: Notes) -> Iterator[SourceBatch]:
        for batch in layer.read(max_rows, dropped):  # as GDAL gives it: without columns, it says that it has no rows
            yield replace(batch, attributes=pa.RecordBatch.from_arrays([], schema=pa.schema([])))

    cleaned = clean(replace(layer, read=read))
    assert [(batch.family, len(batch.rows)) for batch in cleaned.batches] == [(Family.POINT, 2), (Family.LINE, 1)]
    assert cleaned.counts() == {"null_geometry": 1}


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns")], ids=str)
def test_v1_times_that_lose_nanoseconds_are_reported(kind: pa.DataType) -> None:
    times = pa.array([1_000, 1_001, None, 2_999], pa.int64()).cast(kind)
    cleaned = clean(make_layer(["POINT(1 2)"] * 4, {"t": times}))
    assert cleaned.changes() == {"nanoseconds_cut": 2}
    assert [sample.row for sample in cleaned.report.changed["nanoseconds_cut"].samples] == [2, 4]
    assert clean(make_layer(["POINT(1 2)"], {"t": times[:1]})).changes() == {}
