"""Templates: expressions inside the JSON of a definition."""

import pickle

import pytest

from anabranch.canonical import Json
from anabranch.workflows.expressions import (
    ExpressionError,
    Missing,
    Reference,
    evaluate,
    find_mistakes,
    read_template,
    references,
    walk,
)

INPUTS: Json = {"n": 5, "half": 0.5, "none": None, "yes": True, "name": "a", "list": [1], "map": {"k": 1}}


def resolve(reference: Reference) -> Json:
    return walk(INPUTS, reference.path, reference)


def fill(value: Json) -> Json:
    return evaluate(read_template(value), resolve)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("{{ inputs.n }}", 5),
        ("{{inputs.n}}", 5),
        ("{{\n  inputs.list\n}}", [1]),
        ("{{ inputs.map }}", {"k": 1}),
        ("{{ inputs.none }}", None),
        ("{{ inputs.n > 3 }}", True),
        (" {{ inputs.n }}", " 5"),
        ("{{ inputs.n }}\n", "5\n"),
        ("{{ inputs.half }}{{ inputs.n }}", "0.55"),
        ("n={{ inputs.n }}, {{ inputs.yes }}, {{ inputs.none }}", "n=5, true, null"),
    ],
)
def test_g6_an_expression_alone_keeps_its_type_and_text_around_it_makes_text(given: Json, wanted: Json) -> None:
    assert fill(given) == wanted


@pytest.mark.parametrize("plain", ["", "}}", "a } b", "{ {", 5, None, True, [], {}, {"a": [1, {"b": "c"}]}])
def test_what_holds_no_expression_is_itself(plain: Json) -> None:
    assert fill(plain) == plain


def test_expressions_are_found_at_any_depth() -> None:
    given: Json = {"a": [1, {"b": "{{ inputs.n }}"}], "c": "x", "d": ["{{ inputs.name }}.tif"]}
    assert fill(given) == {"a": [1, {"b": 5}], "c": "x", "d": ["a.tif"]}
    assert references(read_template(given)) == {Reference("inputs", ("n",)), Reference("inputs", ("name",))}


@pytest.mark.parametrize(
    ("given", "wanted"), [("{{ '{{' }}", "{{"), ("a {{ '{{ x }}' }} b", "a {{ x }} b"), ("{{ '}}' }}}}", "}}}}")]
)
def test_braces_can_be_written_as_text(given: str, wanted: str) -> None:
    assert fill(given) == wanted


@pytest.mark.parametrize("given", ["{{ item }}", "<{{ item }}>", {"a": ["{{ item }}"]}])
def test_g7_a_value_is_never_evaluated_again(given: Json) -> None:
    hostile = "{{ inputs.n }}"
    filled = evaluate(read_template(given), lambda _: hostile)
    assert hostile in str(filled)


def test_g8_a_missing_value_tells_where_in_the_template_it_was_wanted() -> None:
    with pytest.raises(Missing) as error:
        fill({"a": [0, "x {{ inputs.typo }}"]})
    assert (error.value.message, error.value.where, error.value.offset) == (
        "inputs.typo is missing: inputs has no 'typo'",
        ("a", 1),
        5,
    )


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            "x {{ inputs.list }}",
            "an array can't be part of a text",
            "Make it text with join, or let the expression stand alone.",
        ),
        ("x {{ inputs.map }}", "an object can't be part of a text", ""),
    ],
)
def test_lists_and_objects_do_not_become_text(given: str, message: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as error:
        fill(given)
    assert (error.value.message, error.value.hint, error.value.offset) == (message, hint, 5)


def test_s2_a_long_text_is_refused_before_it_is_built() -> None:
    with pytest.raises(ExpressionError) as error:
        evaluate(read_template({"a": "{{ item }}{{ item }}"}), lambda _: "x" * 500_001)
    assert error.value.message == "it would build more than 1,000,000 characters of text"
    assert error.value.where == ("a",)


@pytest.mark.parametrize(
    ("given", "where", "offset", "message"),
    [
        ("a {{ inputs.n", (), 2, "the {{ is never closed"),
        ("{{ 1 }} {{ 2", (), 8, "the {{ is never closed"),
        ("{{ '}}", (), 3, "the quote is never closed"),
        ("{{ '}}'", (), 0, "the {{ is never closed"),
        ("{{ }}", (), 3, "the expression is empty"),
        (["x", "12 {{ 1 / 1 }}"], (1,), 8, "unexpected '/'"),
        ({"{{ inputs.n }}": 1}, ("{{ inputs.n }}",), 0, "a key can't hold an expression"),
        ({"a": {"b{{": 1}}, ("a", "b{{"), 1, "a key can't hold an expression"),
        ("{{ " + " " * 2000 + "1 }}", (), 2, "the expression is longer than 2,000 characters"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    given: Json, where: tuple[str | int, ...], offset: int, message: str
) -> None:
    with pytest.raises(ExpressionError) as error:
        read_template(given)
    assert (error.value.message, error.value.where, error.value.offset) == (message, where, offset)


def test_ts1_a_text_with_very_many_expressions_is_refused() -> None:
    assert find_mistakes("{{ 1 }}-" * 100) == []
    (mistake,) = find_mistakes("{{ 1 }}-" * 10_000)
    assert mistake.message == "the text has more than 100 expressions"


def test_a_value_too_deep_to_be_stored_is_refused() -> None:
    deep: Json = "{{ 1 }}"
    for _ in range(65):
        deep = [deep]
    with pytest.raises(ExpressionError) as error:
        read_template(deep)
    assert error.value.message == "the value is nested deeper than 64 levels"


def test_every_mistake_of_a_value_can_be_had_at_once() -> None:
    found = find_mistakes({"a": "{{ nope }}", "{{": ["{{ 1 }}", "{{ 1 = 1 }}"]})
    assert [(mistake.where, mistake.message) for mistake in found] == [
        (("{{",), "a key can't hold an expression"),
        (("a",), "nothing is called 'nope'"),
        (("{{", 1), "unexpected '='"),
    ]


def test_text_of_any_length_may_stand_around_expressions() -> None:
    assert fill("x" * 10_000 + "{{ inputs.n }}") == "x" * 10_000 + "5"


def test_templates_can_be_pickled() -> None:
    template = read_template({"a": ["{{ item }}", "x{{ index }}", 3]})
    assert pickle.loads(pickle.dumps(template)) == template
