"""What all tests share."""

import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from tests.support.engine import EngineHarness, open_harness
from tests.support.stack import Stack, open_stack

pytest_plugins = ["tests.support.objects", "anabranch.testing.postgres"]

# The default draws every local variable of every frame, which takes seconds where one of them is an application.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)
# A shell that runs the tests in the background has SIGINT ignored, and so would the programs that they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


# How long an example takes depends on what else the machine does.
settings.register_profile("any_load", deadline=None)
settings.load_profile("any_load")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many seeds the campaigns of faults run with, or with which one."""
    parser.addoption("--seeds", type=int, default=1, help="run each campaign with the seeds 1 to N")
    parser.addoption("--seed", type=int, default=None, help="run each campaign with this seed only")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Tests wait for processes and disks more than they compute, so two share a core."""
    return 2 * (os.cpu_count() or 1)


def pytest_collection() -> None:
    """The tests themselves are a million objects that live to the end: no collection of garbage looks at them."""
    gc.disable()


def pytest_collection_finish() -> None:
    """They are made, and the garbage of the tests is collected."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Commands set up the logs of their process, which here is that of the tests; loggers keep what they met first."""
    root, config = logging.getLogger(), structlog.get_config()
    handlers, level = list(root.handlers), root.level
    yield
    if structlog.get_config() != config:
        structlog.configure(**config)
        for name, module in list(sys.modules.items()):
            if name.startswith("anabranch") and (kept := vars(module).get("log")):
                vars(kept).pop("bind", None)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[EngineHarness]:
    """The engine's store, driven step by step without workers."""
    async with open_harness(database_url) as harness:
        yield harness


@pytest.fixture
async def stack(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    """Orchestrator, worker and gateway in this process, with the plugins that a test's module names."""
    async with open_stack(database_url, tmp_path, [request.module.PLUGINS]) as opened:
        yield opened
