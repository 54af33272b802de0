"""The policy of a partner's platform, as an operator saves it."""

from anabranch.canonical import Json

__all__ = ["PLATFORM", "make_policy"]

PLATFORM = "ddh"


def make_policy(approval: str, **workflows: str) -> dict[str, Json]:
    """That of the data hub, with a workflow for each type of data."""
    return {
        "title": "Data hub", "required_refs": ["dataset_id", "resource_id"], "optional_refs": [],
        "version_ref": "version_id", "workflows": {**workflows}, "approval": approval, "callback_hosts": [],
        "max_unresolved": None,
    }  # fmt: skip
