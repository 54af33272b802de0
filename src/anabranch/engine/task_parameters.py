"""Fills in the parameters of tasks: templates from the pinned definition, values from the job's data (G7)."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from anabranch.canonical import Json, JsonObject
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import Missing, Reference, Template, evaluate, walk
from anabranch.workflows.nodes import Node

__all__ = ["Definitions", "TaskValues", "fill_in", "fill_template", "find_job_value"]

MAX_CACHED_WORKFLOWS = 256


class Source(Protocol):
    """The store of definitions."""

    async def definition(self, workflow_hash: str) -> Workflow: ...


class Definitions:
    """A cache of the workflows that jobs are pinned to."""

    def __init__(self, store: Source) -> None:
        self._store = store
        self._kept: OrderedDict[str, Workflow] = OrderedDict()

    async def get(self, workflow_hash: str) -> Workflow:
        """The workflow with this hash."""
        if workflow_hash not in self._kept:
            self._kept[workflow_hash] = await self._store.definition(workflow_hash)
        self._kept.move_to_end(workflow_hash)
        if len(self._kept) > MAX_CACHED_WORKFLOWS:
            self._kept.popitem(last=False)
        return self._kept[workflow_hash]


@dataclass(frozen=True)
class TaskValues:
    """What expressions of a task may name: the job, its inputs, values of nodes' outputs, the item and its index."""

    job_id: str
    inputs: JsonObject
    values: Json
    item: Json
    index: int | str
    tick: JsonObject | None = None


def fill_in(node: Node, given: TaskValues) -> JsonObject:
    """The parameters of one task of a node that has a template."""
    filled = fill_template(node.work.template, given) if node.work and node.work.template else {}
    return filled if isinstance(filled, dict) else {}


def fill_template(template: Template, given: TaskValues) -> Json:
    """A template with its values; Missing where there is none that it needs."""

    def resolve(reference: Reference) -> Json:
        match reference.root:
            case "inputs":
                return walk(given.inputs, reference.path, reference)
            case "item":
                return walk(given.item, reference.path, reference)
            case "index":
                return given.index
            case "job" if reference.path != ("ending",):
                return find_job_value(reference, given.job_id, given.tick)
            case _:
                return _stored(reference, given.values)

    return evaluate(template, resolve)


def find_job_value(reference: Reference, job_id: str, tick: Mapping[str, Json] | None) -> Json:
    """The id of a job, or a time of its tick; Missing where no schedule made the job."""
    name = str(reference.path[0])
    if name == "id":
        return job_id
    if tick is None or tick.get(name) is None:
        raise Missing(reference, "no schedule made this job" if tick is None else "there is no earlier tick")
    return tick[name]


def _stored(reference: Reference, values: Json) -> Json:
    name = str(Reference(reference.root, reference.path))
    if not isinstance(values, dict) or name not in values:
        raise Missing(reference)
    return values[name]
