"""What the fault tests share: a stage on the run's server, with an orchestrator."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anabranch.testing.crew import Stage, Start, open_stage

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Start:
    """How processes start: short leases, the plugins of these tests, a database of their own."""
    return Start(tmp_path, PLUGINS, database_url)


@pytest.fixture
async def stage(start: Start) -> AsyncIterator[Stage]:
    """A stage without processes."""
    async with open_stage(start) as opened:
        yield opened
