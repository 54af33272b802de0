"""A partner's day with real processes and files, as an operator runs them: keys, two people, a receiver, a reader."""

import json
from collections.abc import Iterator

import pytest

from anabranch.embedded.home import Home
from tests.support.partner_day import open_day
from tests.support.running_stack import RunningStack, run_stack

pytestmark = pytest.mark.postgres


@pytest.fixture
def stack(catalog_url: str) -> Iterator[RunningStack]:
    with run_stack(DATABASE_URL=catalog_url, AUTH="keys", CALLBACK_HOSTS="127.0.0.1") as made:
        yield made


async def test_p5_p6_p9_a_partner_submits_reviews_reads_replaces_and_takes_back(
    stack: RunningStack, catalog_url: str
) -> None:
    home = Home(stack.folder / "home")
    running = home.read_stack()
    assert running
    async with open_day(
        str(running.api_url), str(home.read_key()), catalog_url, stack.folder / "files", number=1, pause=0.5
    ) as day:
        for step in day.steps():
            await step
        await day.verify()
    ways = ("stac", "search", "raster", "features", "file", "current")
    assert all(day.reader.seen[f"{way}: shown"] for way in ways), day.reader.seen
    assert json.loads(stack.call("storage", "audit", "--json"))["findings"] == []
    stack.call("db", "audit")
