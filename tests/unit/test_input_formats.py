"""Text that would become an address or a line of the catalog is refused before a job exists, all mistakes at once."""

from pathlib import Path

import pytest

from anabranch.canonical import Json
from anabranch.engine.registry import load_plugins
from anabranch.errors import DefinitionError, InputError
from anabranch.workflows.inputs import Input, InvalidParameters, check_inputs, inputs_schema, read_input

SOURCE = "bronze://uploads/00/dem.tif"


def test_g9_what_the_first_handler_would_refuse_is_refused_when_it_is_submitted_all_at_once() -> None:
    declared = load_plugins([]).declaration("process_raster")
    wrong = {"source": "bronze://in/notes.txt", "target_crs": "http://crs", "raster_type": "dream", "datetime": "soon"}
    with pytest.raises(InvalidParameters) as refused:
        declared.check({**wrong, "collection": "a..b", "profile": "any", "more": 1})
    assert {mistake.name for mistake in refused.value.mistakes} == {*wrong, "collection", "profile", "more"}
    with pytest.raises(InvalidParameters, match="visualization is for 8-bit rgb and rgba, but raster_type is dem"):
        declared.check({"source": SOURCE, "profile": "visualization", "raster_type": "dem"})
    with pytest.raises(InvalidParameters, match="tiling must be one of"):
        declared.check({"source": SOURCE, "tiling": "often"})
    assert declared.check({"source": SOURCE, "datetime": "2026-03-21T10:15:00Z"})["tiling"] == "auto"


FLOW = """
workflow_id: flow
inputs: {count: {type: integer}, name: {type: string, default: x}}
nodes:
  start: {type: start, next: first}
  first: {handler: list_items, params: {count: "{{ inputs.count }}"}%s, next: then}
  then: {handler: sleep, params: {seconds: "{{ inputs.count }}"}}
"""


@pytest.mark.parametrize(
    ("more", "is_checked"), [("", True), (", when: inputs.name == 'x'", False), (", on_failure: continue", False)]
)
def test_g9_only_what_every_job_calls_first_is_checked(tmp_path: Path, more: str, is_checked: bool) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW % more)
    declared = load_plugins([str(tmp_path)]).declaration("flow")
    assert declared.check({"count": 3}) == {"count": 3, "name": "x"}
    if is_checked:
        with pytest.raises(InvalidParameters, match="count is refused: it should be greater than or equal to 0"):
            declared.check({"count": -1})
    else:
        assert declared.check({"count": -1})


PICKY = """
from pydantic import BaseModel, field_validator, model_validator
from anabranch import handler

class Sizes(BaseModel):
    width: int = 1
    height: int = 1
    unit: str = "m"

    @field_validator("unit")
    @classmethod
    def known(cls, unit):
        if unit == "local":
            raise FileNotFoundError("units.txt")
        return {"m": "m", "ft": "ft"}[unit]

    @model_validator(mode="after")
    def flat(self):
        if self.height > self.width:
            raise ValueError("it is higher than wide")
        return self

@handler("measure")
def measure(params: Sizes):
    return None
"""
MEASURE = """
workflow_id: measure
inputs: {width: {type: integer, default: 1}, height: {type: integer, default: 1}, unit: {type: string, default: m}}
nodes:
  first:
    handler: measure
    params: {width: "{{ inputs.width }}", height: "{{ inputs.height }}", unit: "{{ inputs.unit }}"}
    next: then
  then: {handler: sleep, params: {seconds: 1}}
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"unit": "mile"}, ["the parameters can't be checked: KeyError: 'mile'"]),
        ({"height": 2}, ["it is higher than wide"]),
        ({"height": 2, "width": "wide"}, ["width must be an integer, not a string"]),
        ({"unit": "local"}, []),
    ],
)
def test_g9_an_error_of_a_validator_is_reported_where_all_that_it_needs_is_known(
    tmp_path: Path, given: dict[str, Json], said: list[str]
) -> None:
    (tmp_path / "picky.py").write_text(PICKY)
    (tmp_path / "measure.yaml").write_text(MEASURE)
    declared = load_plugins([str(tmp_path)]).declaration("measure")
    try:
        declared.check(given)
        mistakes = []
    except InvalidParameters as refused:
        mistakes = [str(mistake) for mistake in refused.mistakes]
    assert mistakes == said


@pytest.fixture(scope="module")
def inputs() -> dict[str, Input]:
    (found,) = (workflow for workflow in load_plugins([]).workflows if workflow.id == "process_raster")
    return dict(found.inputs or {})


@pytest.mark.parametrize(
    "source",
    [
        "dem.tif", "/etc/passwd", "bronze://", "bronze://../x", "bronze://a//b", "bronze://a\x00b", "bronze:///x",
        "BRONZE://x", "https://", "bronze://a\nb", "bronze://.anabranch/x", "bronze://" + "x" * 2000,
    ],
)  # fmt: skip
def test_a_source_that_is_no_address_is_refused_when_it_is_submitted(inputs: dict[str, Input], source: str) -> None:
    with pytest.raises(InputError, match="source must be an address") as refused:
        check_inputs(inputs, {"source": source})
    assert refused.value.code == "job.parameters"


@pytest.mark.parametrize("name", ["title", "collection", "datetime", "raster_type", "input_crs", "target_crs"])
@pytest.mark.parametrize("text", ["a\x00b", "a\nb", "a\x1b[2Jb", "a\x7f", "a\x85b", "a\u2028b", "a\u202eb"])
def test_text_for_the_catalog_is_one_line_that_can_be_shown(inputs: dict[str, Input], name: str, text: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be one line"):
        check_inputs(inputs, {"source": SOURCE, name: text})


def test_all_mistakes_are_told_at_once(inputs: dict[str, Input]) -> None:
    with pytest.raises(InputError) as refused:
        check_inputs(inputs, {"source": "dem.tif", "title": "a\tb", "collection": "c\n", "tiling": "often"})
    told = refused.value.message
    assert all(f"{name} must be" in told for name in ("source", "title", "collection", "tiling")), told


def test_titles_of_all_scripts_are_taken(inputs: dict[str, Input]) -> None:
    for title in ("Höhenmodell, 2 m", "数値標高モデル", "नक्\u200dशा", "👩\u200d🔬"):
        assert check_inputs(inputs, {"source": SOURCE, "title": title})["title"] == title


def test_the_schema_of_inputs_says_the_format() -> None:
    declared = {"source": read_input("source", {"type": "string", "format": "address"})}
    assert inputs_schema(declared)["properties"] == {"source": {"type": "string", "format": "address"}}


@pytest.mark.parametrize("given", [{"type": "string", "format": "poem"}, {"type": "integer", "format": "line"}])
def test_a_format_that_is_not_known_or_not_for_text_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(DefinitionError, match="format"):
        read_input("x", given)
