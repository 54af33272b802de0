"""Conditions: the short form against a subject, and whole expressions."""

import pytest

from anabranch.canonical import Json
from anabranch.workflows.expressions import (
    ExpressionError,
    Reference,
    check,
    evaluate,
    parse_condition,
    references,
    walk,
)

INPUTS: Json = {"n": 5, "limit": 100}


def resolve(reference: Reference) -> Json:
    return walk(INPUTS, reference.path, reference)


@pytest.mark.parametrize(
    ("condition", "subject", "wanted"),
    [
        ("< 100", 99, True),
        ("< 100", 100, False),
        ("{{ < 100 }}", 99, True),
        (">= inputs.limit", 100, True),
        ("in ['a', 'b']", "b", True),
        ("not_in ['a', 'b']", "b", False),
        ("contains 'x'", "axb", True),
        ("starts_with 's3://'", "s3://bucket", True),
        ("is_null", None, True),
        ("is_not_null", None, False),
        ("> 3 and < 10", 5, True),
        ("> 3 and < 10", 10, False),
        ("< 3 or > inputs.n", 6, True),
        ("large", "large", True),
        ("'large'", "large", True),
        (" EPSG:4326 ", "EPSG:4326", True),
        ("image/tiff", "image/tiff", True),
        ("2026-01-31", "2026-01-31", True),
        ("10//12", "10//12", True),
        ("index-1", "index-1", True),
        ("> inputs.n * 2 - 1", 10, True),
        ("inputs.n + 1 == 6", "whatever", True),
        ("größe", "größe", True),
        ("format", "format", True),
        ("5", 5, True),
        ("5", "5", False),
        ("'5'", "5", True),
        ("true", True, True),
        ("[1, 'a']", [1, "a"], True),
        (5, 5.0, True),
        (True, True, True),
        (True, 1, False),
        (None, None, True),
        ("inputs.n > 3", "whatever", True),
        ("{{ inputs.n > 3 }}", "whatever", True),
    ],
)
def test_a_condition_with_a_subject(condition: Json, subject: Json, wanted: bool) -> None:
    assert evaluate(parse_condition(condition, True), resolve, subject) is wanted


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("inputs.n > 3 and inputs.limit == 100", True),
        (" {{ inputs.n > 7 }} ", False),
        ("not inputs.x? is_null", False),
        ("true", True),
        (False, False),
    ],
)
def test_a_condition_without_a_subject_is_a_whole_expression(condition: Json, wanted: bool) -> None:
    assert evaluate(parse_condition(condition, False), resolve) is wanted


@pytest.mark.parametrize(
    ("condition", "has_subject", "offset", "message", "hint"),
    [
        ("< 100", False, 0, "expected a value, found '<'", ""),
        (
            "large",
            False,
            0,
            "nothing is called 'large'",
            "A reference begins with inputs, nodes, item, index or job; text needs quotes.",
        ),
        (
            "large files",
            True,
            0,
            "nothing is called 'large'",
            "A reference begins with inputs, nodes, item, index or job; text needs quotes.",
        ),
        ("input.n > 3", True, 0, "nothing is called 'input'", "Did you mean inputs?"),
        ("nodes.a.done", True, 0, "of a node only its output can be used", "Write nodes.a.output.done."),
        ("< {{ inputs.n }}", True, 2, "unexpected '{'", "Write the expression without braces inside it."),
        (
            "{{ inputs.n }} > 3",
            True,
            14,
            "text follows the braces of a condition",
            "Put the whole condition inside one pair of {{ }}, or leave the braces out.",
        ),
        ("{{ inputs.n", True, 0, "the {{ is never closed", "Close it with }}."),
        ("", True, 0, "the expression is empty", ""),
        ([1], True, 0, "a condition is text, a number, true, false or null, not an array", ""),
        ({}, False, 0, "a condition is text, a number, true, false or null, not an object", ""),
    ],
)
def test_a_condition_that_says_nothing_is_refused(
    condition: Json, has_subject: bool, offset: int, message: str, hint: str
) -> None:
    with pytest.raises(ExpressionError) as error:
        parse_condition(condition, has_subject)
    assert (error.value.message, error.value.offset, error.value.hint) == (message, offset, hint)


def test_a_condition_is_never_decided_by_what_is_not_a_boolean() -> None:
    with pytest.raises(ExpressionError) as error:
        evaluate(parse_condition("inputs.n", False), resolve)
    assert error.value.message == "a condition must be a boolean, not an integer"


def test_the_type_of_the_subject_is_checked_at_load() -> None:
    condition = parse_condition("< 100", True)
    assert condition.about_subject
    assert check(condition, lambda _: None, subject="number") == "boolean"
    with pytest.raises(ExpressionError) as error:
        check(condition, lambda _: None, subject="string")
    assert error.value.message == "< takes two numbers or two strings, not a string and an integer"


def test_a_whole_condition_is_not_about_the_subject_and_has_references() -> None:
    condition = parse_condition("inputs.n > 3", True)
    assert not condition.about_subject
    assert references(condition) == {Reference("inputs", ("n",))}
