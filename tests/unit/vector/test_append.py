"""Rows that are added to a layer get its types only where that changes nothing."""

from typing import Any

import pyarrow as pa
import pytest
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import AppendTarget, CleanBatch, Column, ColumnType, Family
from anabranch.plugins.vector.tables.append import fit_rows


def add(values: list[Any], found: ColumnType, wanted: ColumnType) -> list[Any]:
    """What a layer with one column gets of a CSV file."""
    columns = {kind: (Column(name="v", type=kind, source="v"),) for kind in (found, wanted)}
    target = AppendTarget(name="a", columns=columns[wanted], geometry_type="Point", has_z=False, last_gid=0)
    attributes = pa.record_batch({"v": pa.array(values, ARROW_TYPES[found])})
    points = shapely.points([[1, 2]] * len(values))
    batch = CleanBatch(Family.POINT, pa.array(range(len(values))).to_numpy(), points, attributes)
    fitted: list[Any] = fit_rows(columns[found], target, "CSV")(batch).attributes["v"].to_pylist()
    return fitted


def test_v1_decimals_are_added_to_decimals() -> None:
    texts = ["0", "-1.50", "0.07", "12345678901234567890", None]
    assert add(texts, ColumnType.TEXT, ColumnType.NUMERIC) == texts


@pytest.mark.parametrize("text", ["007", "00.5", "-01", "1e3", "+1", "1.", ".5", "a", ""])
def test_v1_texts_that_a_decimal_would_change_are_refused(text: str) -> None:
    with pytest.raises(Permanent) as caught:
        add([text, "1"], ColumnType.TEXT, ColumnType.NUMERIC)
    assert caught.value.code == "vector.append_columns"


def test_v1_doubles_are_added_to_decimals() -> None:
    added = add([1e16, 1.5, -1e-7, None], ColumnType.DOUBLE, ColumnType.NUMERIC)
    assert added == ["10000000000000000", "1.5", "-0.0000001", None]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_v1_doubles_that_are_no_decimals_are_refused(value: float) -> None:
    with pytest.raises(Permanent) as caught:
        add([value], ColumnType.DOUBLE, ColumnType.NUMERIC)
    assert caught.value.code == "vector.append_columns"


@pytest.mark.parametrize(
    ("values", "found", "wanted", "words"),
    [
        ([1.0, None, 1.5], ColumnType.DOUBLE, ColumnType.BIGINT, "1.5 in column v of row 2"),
        ([1, 2**53 + 1], ColumnType.BIGINT, ColumnType.DOUBLE, "9007199254740993 in column v of row 1"),
        ([2**40], ColumnType.BIGINT, ColumnType.INTEGER, "1099511627776 in column v of row 0"),
        (["1", "007"], ColumnType.TEXT, ColumnType.NUMERIC, "007 in column v of row 1"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_column_and_row(
    values: list[Any], found: ColumnType, wanted: ColumnType, words: str
) -> None:
    with pytest.raises(Permanent) as caught:
        add(values, found, wanted)
    assert caught.value.message == f"{words} does not fit into geo.a, where the column is {wanted}"
    assert "Correct the value" in (caught.value.remedy or "")
