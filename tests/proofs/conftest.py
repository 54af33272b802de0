"""The deep runs of these proofs take minutes: `pytest -m slow tests/proofs` runs them."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" in str(config.getoption("markexpr")):
        return
    for item in items:
        if "proofs" in item.path.parts and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="a deep run: pytest -m slow tests/proofs"))
