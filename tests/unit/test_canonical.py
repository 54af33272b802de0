import math
import re

import pytest

from anabranch.canonical import canonical, decode, encode


def test_canonical_text_is_the_same_for_the_same_value() -> None:
    assert canonical({"b": 1, "a": [1.5, "é"]}) == canonical({"a": [1.5, "é"], "b": 1}) == '{"a":[1.5,"é"],"b":1}'


def test_integers_stay_exact() -> None:
    assert decode(encode({"n": 2**63 + 1})) == {"n": 2**63 + 1}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": math.nan}, "$.x is nan"),
        ([math.inf], "$[0] is inf"),
        ({"x": "a\x00b"}, "U+0000"),
        ({"\x00": 1}, "U+0000"),
        ("\ud800", "U+D800"),
        ({1: "x"}, "not text"),
        ({"x": {1, 2}}, "$.x is a set"),
        ({"x": object()}, "$.x is a object"),
    ],
    ids=["nan", "infinity", "nul", "nul in a key", "surrogate", "number as key", "set", "object"],
)
def test_what_postgresql_cannot_hold_is_refused_and_named(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        encode(value)


def test_deep_nesting_is_refused() -> None:
    deep: object = 1
    for _ in range(65):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper than 64"):
        encode(deep)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NaN", "not JSON"),
        ("[Infinity]", "not JSON"),
        ('"\\u0000"', "can't be stored"),
        ('"\\ud800"', "can't be stored"),
        ("[" * 100_000, "nested deeper"),
        ("{", "Expecting property name"),
    ],
    ids=["nan", "infinity", "nul", "surrogate", "deep", "broken"],
)
def test_json_that_cannot_be_stored_is_refused_when_it_is_read(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(text)
