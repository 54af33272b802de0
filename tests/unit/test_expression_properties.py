"""What holds for every text and all data: the language is total, bounded, and its types are true."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.canonical import Json, encode
from anabranch.workflows.expressions import (
    ExpressionError,
    Missing,
    Reference,
    TypeName,
    check,
    evaluate,
    find_mistakes,
    parse,
    parse_condition,
    read_template,
    walk,
)
from anabranch.workflows.expressions.spelling import spell
from anabranch.workflows.expressions.syntax import CHAINS, FUNCTIONS, OPERATORS, ROOTS, SIGNS, Comparison, Constant

PARTS = [".x", ".output", "[0]", "[-1]", "['k']", "?", "true", "null", "1", "-1", "0.5", "''", '"b\\n"', "'{}'"]
MARKS = ["(", ")", "[", "]", ",", ".", "'", '"', "\\", "{{", "}}", "=", "&", "é"]
FRAGMENTS = [*ROOTS, *FUNCTIONS, *OPERATORS, *CHAINS, *SIGNS[0], *SIGNS[1], *PARTS, *MARKS]

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
data: st.SearchStrategy[Json] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
)
texts = st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(" ".join)

references = st.sampled_from(["item", "item?", "item.a", "item.a?", "item[0]", "index", "inputs.x", "inputs.x.a?"])
literals = st.sampled_from(
    ["null", "true", "1", "0", "9223372036854775807", "1.0", "-2.5", "'a'", "'x/é'", "[]", "[1, 'a', null]"]
)


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(
        [*(name for name in OPERATORS if "null" not in name), "and", "or", *SIGNS[0], *SIGNS[1]]
    )
    of_one = ["length", "lower", "upper", "basename", "stem", "extension", "trim", "integer", "range", "not ", "-"]
    of_two = ["default", "join", "split", "min", "max", "at", "range"]
    return st.one_of(
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("({} {})".format, inner, st.sampled_from(["is_null", "is_not_null"])),
        st.builds("{}({})".format, st.sampled_from(of_one), inner),
        st.builds("{}({}, {})".format, st.sampled_from(of_two), inner, inner),
        st.builds("replace({}, {}, {})".format, inner, inner, inner),
        st.builds("format('{{1}} {{0}}', {}, {})".format, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
    )


expressions = st.recursive(references | literals, combine, max_leaves=8)
worlds = st.fixed_dictionaries({"item": data, "index": st.integers(0, 9), "inputs": st.fixed_dictionaries({"x": data})})

truths = st.recursive(
    st.sampled_from(["true", "false", "1 < 2", "'b' <= 'a'", "2 in [1, 2]", "not true"]),
    lambda inner: (
        st.builds("{} {} {}".format, inner, st.sampled_from(["and", "or", "and not"]), inner)
        | st.builds("({})".format, inner)
    ),
    max_leaves=12,
)


sums = st.recursive(
    st.sampled_from(["0", "1", "7", "4294967296", "9223372036854775807"]),
    lambda inner: (
        st.builds("{} {} {}".format, inner, st.sampled_from([*SIGNS[0], *SIGNS[1]]), inner)
        | st.builds("({})".format, inner)
        | st.builds("- ({})".format, inner)
    ),
    max_leaves=12,
)


def resolve_in(world: dict[str, Json], reference: Reference) -> Json:
    return walk(world[reference.root], reference.path, reference)


def type_of(value: Json) -> TypeName:
    names: dict[type, TypeName] = {
        str: "string",
        bool: "boolean",
        int: "integer",
        float: "number",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    return names[type(value)]


def type_in(world: dict[str, Json], reference: Reference) -> TypeName:
    try:
        return type_of(resolve_in(world, reference))
    except Missing:
        return "any"


@given(texts)
def test_s2_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse(text)
    for has_subject in (True, False):
        with contextlib.suppress(ExpressionError):
            parse_condition(text, has_subject)
    with contextlib.suppress(ExpressionError):
        read_template({"a": [text]})


@given(texts)
def test_an_error_points_into_its_text(text: str) -> None:
    assert all(0 <= mistake.offset <= len(text) for mistake in find_mistakes([text]))
    assert all(0 <= mistake.offset <= len(text) + 6 for mistake in find_mistakes(["{{ " + text + " }}"]))


@given(expressions, worlds)
def test_s2_evaluation_ends_in_json_or_in_an_error_of_ours(text: str, world: dict[str, Json]) -> None:
    with contextlib.suppress(ExpressionError):
        encode(evaluate(parse(text), lambda reference: resolve_in(world, reference)))


@given(expressions, worlds)
def test_a_value_has_the_type_that_the_check_promised(text: str, world: dict[str, Json]) -> None:
    try:
        promised = check(parse(text), lambda reference: type_in(world, reference))
        value = evaluate(parse(text), lambda reference: resolve_in(world, reference))
    except ExpressionError:
        return
    assert promised in ("any", type_of(value)) or (promised, type_of(value)) == ("number", "integer")


@given(expressions, worlds)
def test_what_no_type_can_mend_is_refused_when_evaluated_too(text: str, world: dict[str, Json]) -> None:
    """With everything known and nothing skipped, a mistake at load is a mistake at evaluation."""
    if any(word in text for word in (" and ", " or ", "default", "?")):
        return
    try:
        evaluate(parse(text), lambda reference: resolve_in(world, reference))
    except ExpressionError:
        return
    check(parse(text), lambda reference: type_in(world, reference))


@given(expressions)
def test_what_is_spelled_parses_as_the_same(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        assert parse(spell(parse(text))) == parse(text)


@given(sums)
def test_signs_bind_as_in_python_and_stay_within_64_bits(text: str) -> None:
    values, bounds = [], range(-(2**63), 2**63)

    class Tracked(int):
        """A number that notes each intermediate result, as ours are bounded, too."""

        def __add__(self, other: int) -> "Tracked":
            return note(int(self) + int(other))

        def __sub__(self, other: int) -> "Tracked":
            return note(int(self) - int(other))

        def __mul__(self, other: int) -> "Tracked":
            return note(int(self) * int(other))

        def __floordiv__(self, other: int) -> "Tracked":
            return note(int(self) // int(other))

        def __mod__(self, other: int) -> "Tracked":
            return note(int(self) % int(other))

        def __neg__(self) -> "Tracked":
            return note(-int(self))

    def note(value: int) -> Tracked:
        values.append(value)
        return Tracked(value)

    try:
        oracle = eval(re.sub(r"[0-9]+", r"T(\g<0>)", text), {"T": Tracked})
    except ZeroDivisionError:
        oracle = None
    if oracle is None or any(value not in bounds for value in values):
        with pytest.raises(ExpressionError, match=r"division by zero|64 bits"):
            evaluate(parse(text), lambda _: None)
    else:
        assert evaluate(parse(text), lambda _: None) == oracle


@given(st.lists(st.sampled_from("019aZ._:/+-"), min_size=1).map("".join))
def test_a_bare_word_of_a_branch_is_never_a_sum(word: str) -> None:
    """2026-11-12 is a word, whatever signs it has."""
    if not re.match(r"\w", word):
        return
    condition = parse_condition(word, True)
    assert isinstance(condition.expression, Comparison)
    assert isinstance(condition.expression.right, Constant)


@given(truths)
def test_and_or_not_bind_as_in_python(text: str) -> None:
    oracle = eval(text.replace("true", "True").replace("false", "False"))
    assert evaluate(parse_condition(text, False), lambda _: None) is oracle


@given(data)
def test_g7_json_data_passes_through_a_template_unchanged(value: Json) -> None:
    template = read_template({"whole": "{{ item }}", "listed": ["{{ [item] }}"]})
    assert evaluate(template, lambda _: value) == {"whole": value, "listed": [[value]]}


@given(data, data)
def test_equality_is_that_of_json(left: Json, right: Json) -> None:
    def tagged(value: Json) -> object:
        if isinstance(value, list):
            return [tagged(item) for item in value]
        if isinstance(value, dict):
            return {key: tagged(item) for key, item in value.items()}
        return (isinstance(value, bool), value)

    both = {"a": left, "b": right}
    equal = evaluate(parse("item.a == item.b"), lambda reference: walk(both, reference.path, reference))
    assert equal is (tagged(left) == tagged(right))
    assert evaluate(parse("item == item"), lambda _: left) is True
