"""Text that would become an address or a line of the catalog is refused before a job exists, all mistakes at once."""

import pytest

from anabranch.engine.plugin import load_plugins
from anabranch.errors import DefinitionError, InputError
from anabranch.workflows.inputs import Input, check_inputs, inputs_schema, read_input

SOURCE = "bronze://uploads/00/dem.tif"


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
