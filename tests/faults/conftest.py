"""What the fault tests share: a stage on the run's server, folders a server of their own can use, and seeds."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.crew import Stage, Start, open_stage

PLUGINS = Path(__file__).parent / "plugins"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A campaign runs once for each seed; all but the first are slow."""
    if "seed" in metafunc.fixturenames:
        given: int | None = metafunc.config.getoption("--seed")
        seeds = [given] if given is not None else list(range(1, metafunc.config.getoption("--seeds") + 1))
        marks = {seed: [pytest.mark.slow] if place else [] for place, seed in enumerate(seeds)}
        metafunc.parametrize("seed", [pytest.param(seed, marks=marks[seed], id=f"seed{seed}") for seed in seeds])


@pytest.fixture
def strikes(pytestconfig: pytest.Config) -> int:
    """How many faults hit: few, where the campaign is but a sample."""
    is_sample = pytestconfig.getoption("--seed") is None and pytestconfig.getoption("--seeds") == 1
    return 2 if is_sample else 7


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Start:
    """How processes start: short leases, the plugins of these tests, a database of their own."""
    return Start(tmp_path, PLUGINS, database_url)


@pytest.fixture
async def stage(start: Start) -> AsyncIterator[Stage]:
    """A stage without processes."""
    async with open_stage(start) as opened:
        yield opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user of a server can enter."""
    made = Path(tempfile.mkdtemp(prefix="ab-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)
