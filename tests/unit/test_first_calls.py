"""What the first handler of a workflow says of a job's parameters."""

import pytest
from pydantic import BaseModel

from anabranch.workflows.expressions import read_template
from anabranch.workflows.first_calls import FirstCall


class Sizes(BaseModel):
    sizes: list[str]


@pytest.mark.parametrize(
    ("count", "last"), [(300, "there are 200 more mistakes"), (20_000, "there are 20,000 mistakes, too many to list")]
)
def test_ts1_of_very_many_mistakes_that_a_model_finds_the_first_are_reported(count: int, last: str) -> None:
    call = FirstCall(Sizes, {"sizes": read_template("{{ inputs.sizes }}")}, is_whole=False)
    *first, told = call.find_mistakes({"sizes": [*range(count)]}, set())
    assert told.message == last
    assert len(first) in (0, 100)
