"""Jobs in flight stay pinned to the definition that they started with (E16): the hashes of what we ship do not move."""

import json
from pathlib import Path

from anabranch.engine.plugin import load_plugins

HASHES = Path(__file__).parents[1] / "data" / "workflow_hashes.json"


def test_e16_the_shipped_workflows_have_the_hashes_that_jobs_are_pinned_to() -> None:
    """A workflow that was changed on purpose gets a new version, and its new hash here."""
    found = {workflow.id: workflow.hash for workflow in load_plugins().workflows}
    assert found == json.loads(HASHES.read_text())
