"""Fill in the parameters of tasks: the template from the pinned definition, the values from the job's data (G7)."""

from collections import OrderedDict

from anabranch.engine.canonical import Json
from anabranch.engine.expressions import Missing, Reference, evaluate, walk
from anabranch.engine.model import LaneFacts
from anabranch.engine.ports import JobStore
from anabranch.engine.workflow import Workflow

__all__ = ["Definitions", "fill_in"]

KEPT = 256


class Definitions:
    """The workflows that jobs were pinned to, the latest used of them kept."""

    def __init__(self, store: JobStore) -> None:
        """From this store."""
        self._store = store
        self._kept: OrderedDict[str, Workflow] = OrderedDict()

    async def get(self, workflow_hash: str) -> Workflow:
        """The workflow with this hash."""
        if workflow_hash not in self._kept:
            self._kept[workflow_hash] = await self._store.definition(workflow_hash)
        self._kept.move_to_end(workflow_hash)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[workflow_hash]


def fill_in(workflow: Workflow, lane: LaneFacts, item: Json, index: int | str) -> dict[str, Json]:
    """The parameters of one task of a node that has a template."""
    template, values = workflow.node(lane.node).template, lane.policy["values"]

    def resolve(reference: Reference) -> Json:
        match reference.root:
            case "inputs":
                return walk(lane.parameters, reference.path, reference)
            case "item":
                return walk(item, reference.path, reference)
            case "index":
                return index
            case "job":
                return lane.job_id
            case _:
                return _stored(reference, values)

    filled = evaluate(template, resolve) if template else {}
    return filled if isinstance(filled, dict) else {}


def _stored(reference: Reference, values: Json) -> Json:
    name = str(Reference(reference.root, reference.path))
    if not isinstance(values, dict) or name not in values:
        raise Missing(reference)
    return values[name]
