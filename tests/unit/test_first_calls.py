"""What the first handler of a workflow says of a job's parameters."""

from typing import Literal

import pytest
from pydantic import BaseModel, Field

from anabranch.canonical import Json
from anabranch.workflows.expressions import read_template
from anabranch.workflows.first_calls import FirstCall


class Sizes(BaseModel):
    sizes: list[str]


class Formats(BaseModel):
    formats: tuple[Literal["csv", "pmtiles"], ...] = Field(min_length=1)


@pytest.mark.parametrize(
    ("count", "last"), [(300, "there are 200 more mistakes"), (20_000, "there are 20,000 mistakes, too many to list")]
)
def test_ts1_of_very_many_mistakes_that_a_model_finds_the_first_are_reported(count: int, last: str) -> None:
    call = FirstCall(Sizes, {"sizes": read_template("{{ inputs.sizes }}")}, is_whole=False)
    *first, told = call.find_mistakes({"sizes": [*range(count)]}, set())
    assert told.message == last
    assert len(first) in (0, 100)


@pytest.mark.parametrize(("given", "said"), [(["cvs"], ["it should be 'csv' or 'pmtiles'"]), ([], ["at least 1 item"])])
def test_ts1_a_list_with_a_wrong_member_is_not_too_short_as_well(given: Json, said: list[str]) -> None:
    call = FirstCall(Formats, {"formats": read_template("{{ inputs.formats }}")}, is_whole=True)
    found = [mistake.message for mistake in call.find_mistakes({"formats": given}, set())]
    assert len(found) == len(said)
    assert all(words in text for words, text in zip(said, found, strict=True))
