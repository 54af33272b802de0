"""The check at load: types that can never fit are refused before anything runs."""

import pytest

from anabranch.workflows.expressions import (
    ExpressionError,
    Reference,
    TypeName,
    check,
    check_all,
    parse,
    parse_condition,
    read_template,
)

TYPES: dict[str, TypeName] = {
    "inputs.text": "string",
    "inputs.n": "integer",
    "inputs.x": "number",
    "inputs.flag": "boolean",
    "inputs.list": "array",
    "inputs.map": "object",
    "inputs.free": "any",
}


def types(reference: Reference) -> TypeName | None:
    return TYPES.get(str(reference).rstrip("?"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("inputs.text", "string"),
        ("inputs.x", "number"),
        ("inputs.n", "integer"),
        ("inputs.n?", "any"),
        ("inputs.free", "any"),
        ("5", "integer"),
        ("5.0", "number"),
        ("null", "null"),
        ("[inputs.n]", "array"),
        ("length(inputs.free)", "integer"),
        ("lower(inputs.text?)", "string"),
        ("format('{}', inputs.n)", "string"),
        ("default(inputs.n, 3)", "integer"),
        ("default(inputs.n?, 3)", "integer"),
        ("default(inputs.n, 0.5)", "number"),
        ("default(inputs.n, 'none')", "any"),
        ("default(null, 'none')", "string"),
        ("inputs.n < inputs.x", "boolean"),
        ("inputs.n == inputs.text", "boolean"),
        ("inputs.free < 'a'", "boolean"),
        ("inputs.flag and not inputs.free", "boolean"),
        ("inputs.n? is_null", "boolean"),
    ],
)
def test_the_type_of_an_expression_is_known_at_load(text: str, wanted: TypeName) -> None:
    assert check(parse(text), types) == wanted


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("inputs.typo", 0, "there is no inputs.typo"),
        ("inputs.typo?", 0, "there is no inputs.typo"),
        ("1 < inputs.text", 2, "< takes two numbers or two strings, not an integer and a string"),
        ("inputs.free < true", 12, "< takes two numbers or two strings, not any value and a boolean"),
        ("inputs.text? < 1", 13, "< takes two numbers or two strings, not a string or null and an integer"),
        ("inputs.x and true", 0, "and takes a boolean, not a number"),
        ("upper(inputs.list)", 6, "upper takes a string, not an array"),
        ("basename(inputs.map)", 9, "basename takes a string, not an object"),
    ],
)
def test_types_that_can_never_fit_are_refused_at_load(text: str, offset: int, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        check(parse(text), types)
    assert (error.value.message, error.value.offset) == (message, offset)


@pytest.mark.parametrize("operator", ["in", "not_in"])
def test_in_looks_into_lists_only(operator: str) -> None:
    with pytest.raises(ExpressionError) as error:
        check(parse(f"'a' {operator} inputs.text"), types)
    assert error.value.message == f"{operator} takes a value and an array, not a string and a string"
    assert error.value.hint == "Use contains to look into a string."


def test_the_caller_gives_the_hint_for_what_does_not_exist() -> None:
    with pytest.raises(ExpressionError) as error:
        check(parse("inputs.txt"), types, hint=lambda reference: f"Did you mean {reference.root}.text?")
    assert error.value.hint == "Did you mean inputs.text?"


def test_a_condition_must_be_able_to_be_a_boolean() -> None:
    assert check(parse_condition("inputs.free", False), types) == "boolean"
    with pytest.raises(ExpressionError) as error:
        check(parse_condition("inputs.n", False), types)
    assert error.value.message == "a condition must be a boolean, not an integer"


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("{{ inputs.n }}", "integer"),
        ("{{ inputs.n }} ", "string"),
        (["{{ inputs.n }}"], "array"),
        ({"a": "{{ inputs.n }}"}, "object"),
        (0.5, "number"),
    ],
)
def test_g6_the_type_of_a_template_is_known_at_load(template: str, wanted: TypeName) -> None:
    assert check(read_template(template), types) == wanted


def test_every_mistake_of_a_template_is_reported_at_once() -> None:
    template = read_template({"a": ["{{ inputs.typo }}", "x {{ inputs.list }} {{ inputs.map }}"], "b": "{{ not 5 }}"})
    assert [(mistake.where, mistake.offset, mistake.message) for mistake in check_all(template, types)] == [
        (("a", 0), 3, "there is no inputs.typo"),
        (("a", 1), 5, "an array can't be part of a text"),
        (("a", 1), 23, "an object can't be part of a text"),
        (("b",), 7, "not takes a boolean, not an integer"),
    ]


def test_one_mistake_is_reported_once() -> None:
    assert [mistake.message for mistake in check_all(parse("not (lower(5) < 3)"), types)] == [
        "lower takes a string, not an integer"
    ]
