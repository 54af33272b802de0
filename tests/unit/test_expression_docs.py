"""The page on expressions tells the truth: its examples give its values, and its mistakes its errors."""

import json
import re
from pathlib import Path

import pytest

from anabranch.canonical import Json
from anabranch.workflows.expressions import ExpressionError, Reference, TypeName, check, evaluate, read_template, walk
from anabranch.workflows.expressions.syntax import CHAINS, FUNCTIONS, OPERATORS, ROOTS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "expressions.md").read_text()
WORLD: dict[str, Json] = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
TYPES: dict[type, TypeName] = {int: "integer", str: "string", list: "array"}


def rows(heading: str) -> list[list[str]]:
    section = PAGE.partition(f"{heading}\n")[2].partition("\n#")[0]
    table = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip("`") if cell.count("`") == 2 else cell for cell in row] for row in table]


def resolve(reference: Reference) -> Json:
    return walk(WORLD[reference.root], reference.path, reference)


def declared_type(reference: Reference) -> TypeName | None:
    if reference.root != "inputs":
        return "any"
    inputs = WORLD["inputs"]
    assert isinstance(inputs, dict)
    name = reference.path[0]
    return TYPES.get(type(inputs[name]), "any") if isinstance(name, str) and name in inputs else None


@pytest.mark.parametrize(("written", "value"), rows("## Examples"))
def test_an_example_gives_its_value(written: str, value: str) -> None:
    template = read_template(written)
    check(template, declared_type)
    assert evaluate(template, resolve) == json.loads(value)


@pytest.mark.parametrize(
    ("written", "message", "remedy"), rows("### At load: the text") + rows("### At load: the types")
)
def test_a_mistake_found_at_load_has_its_error(written: str, message: str, remedy: str) -> None:
    with pytest.raises(ExpressionError) as error:
        check(read_template(written), declared_type)
    assert error.value.message == message


@pytest.mark.parametrize(("written", "message", "remedy"), rows("### At evaluation"))
def test_a_mistake_found_at_evaluation_has_its_error(written: str, message: str, remedy: str) -> None:
    template = read_template(written)
    check(template, declared_type)
    with pytest.raises(ExpressionError) as error:
        evaluate(template, resolve)
    assert error.value.message == message


@pytest.mark.parametrize("name", [*ROOTS, *FUNCTIONS, *OPERATORS, *CHAINS])
def test_the_page_names_every_word_of_the_language(name: str) -> None:
    tables = PAGE.partition("## References")[2].partition("## Conditions")[0]
    assert re.search(rf"`{re.escape(name)}(?=[`(.])", tables)
