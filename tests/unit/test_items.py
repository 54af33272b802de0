"""Elements of large arrays: found without decoding the file, and the same as decoding gives."""

import json
import tempfile
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.canonical import Json
from anabranch.engine.advancing.json_array import Items, find_items

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


def find(text: str, path: Sequence[str | int] = (), most: int = 1_000) -> Items:
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        return find_items(file, path, most)


@given(st.lists(VALUES, max_size=8), st.booleans(), st.sampled_from([None, 1]))
def test_a20_every_element_is_found_as_it_is(values: list[Json], escaped: bool, indent: int | None) -> None:
    items = find(json.dumps(values, ensure_ascii=escaped, indent=indent))
    assert (len(items), list(items)) == (len(values), values)
    assert [value for _, text in items.arrays(20) for value in json.loads(text)] == values


@given(VALUES, st.lists(VALUES, max_size=3))
def test_a20_an_array_is_found_at_its_path(beside: Json, values: list[Json]) -> None:
    text = json.dumps({"a": beside, 'q"uote\\': [beside, {"deep": values}], "z": beside})
    assert list(find(text, ('q"uote\\', 1, "deep"))) == values


@pytest.mark.parametrize("path", [("b",), ("a", 2), ("a", "b"), (0,)])
def test_a20_what_is_not_there_is_a_lookup_error(path: tuple[str | int, ...]) -> None:
    with pytest.raises(LookupError):
        find('{"a": [1, 2]}', path)


@pytest.mark.parametrize("path", [(), ("a", 0), ("c",)])
def test_a20_what_is_no_array_is_a_value_error(path: tuple[str | int, ...]) -> None:
    with pytest.raises(ValueError, match="not an array"):
        find('{"a": [1, 2], "c": "[1]"}', path)


def test_a20_batches_are_arrays_of_elements() -> None:
    items = find("[1, 2, 3, 4, 5]").in_batches(2)
    assert (len(items), list(items)) == (3, [[1, 2], [3, 4], [5]])
    assert list(items.arrays(1)) == [(0, "[[1, 2]]"), (1, "[[3, 4]]"), (2, "[[5]]")]
    assert list(find("[]").in_batches(2)) == []


def test_a20_elements_are_counted_up_to_one_more_than_are_allowed() -> None:
    assert len(find(json.dumps(list(range(10))), most=3)) == 4


def test_a20_a_large_array_takes_little_memory() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"[" + b",".join(b'{"id":%d,"text":"%s"}' % (n, b"x" * 1500) for n in range(20_000)) + b"]")
        file.flush()
        size = file.tell()
        tracemalloc.start()
        try:
            items = find_items(file, (), 1_000_000)
            count = sum(text.count('"id"') for _, text in items.arrays(1_000_000))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (len(items), count) == (20_000, 20_000)
    assert peak < 10_000_000 < size
