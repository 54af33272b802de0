import pytest

from anabranch.canonical import Json
from anabranch.errors import DefinitionError, InputError
from anabranch.workflows.inputs import InvalidParameters, check_inputs, inputs_schema, read_input

DECLARED = {
    "n": read_input("n", {"type": "int", "min": 1, "max": 1000, "default": 3}),
    "message": read_input("message", {"type": "str", "required": True}),
    "mode": read_input("mode", {"type": "string", "choices": ["fast", "slow"], "default": "fast"}),
}


def test_g9_defaults_are_applied() -> None:
    assert check_inputs(DECLARED, {"message": "hi"}) == {"n": 3, "message": "hi", "mode": "fast"}


def test_g9_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(InputError) as error:
        check_inputs(DECLARED, {"n": 0, "mode": "odd", "extra": 1})
    for mistake in (
        "n must be at least 1, not 0",
        "message is required",
        "mode must be one of",
        "extra is not an input",
    ):
        assert mistake in error.value.message


def test_ts1_of_very_many_names_the_first_are_reported_and_the_others_counted() -> None:
    with pytest.raises(InvalidParameters) as error:
        check_inputs(DECLARED, {f"x{number}": 1 for number in range(1_000)})
    mistakes = [str(mistake) for mistake in error.value.mistakes]
    assert mistakes[99:] == [
        "x99 is not an input",
        "900 more names are given, and none of them is an input",
        "message is required",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("int", "5", "must be an integer, not a string"),
        ("int", True, "must be an integer, not a boolean"),
        ("int", 5.0, "must be an integer, not a number"),
        ("str", 5, "must be a string, not an integer"),
        ("list", {}, "must be an array, not an object"),
        ("str", None, "must be a string, not null"),
    ],
)
def test_g9_a_wrong_type_is_named(kind: str, value: Json, message: str) -> None:
    with pytest.raises(InputError) as error:
        check_inputs({"x": read_input("x", {"type": kind})}, {"x": value})
    assert error.value.message == f"x {message}"


@pytest.mark.parametrize(
    "given",
    [
        {"type": "int", "mim": 1},
        {"type": "integre"},
        {"type": "int", "default": "x"},
        {"type": "int", "min": "1"},
        {"choices": 5},
        {"required": "no"},
    ],
)
def test_g4_a_wrong_declaration_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        read_input("x", given)


def test_inputs_have_a_json_schema() -> None:
    schema = inputs_schema(DECLARED)
    assert schema["required"] == ["message"]
    assert schema["properties"] == {
        "n": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 3},
        "message": {"type": "string"},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
    }
