"""Evaluates the expressions of a job against its parameters and the known outputs of its nodes."""

from collections.abc import Mapping

from anabranch.canonical import Json, JsonObject, encode
from anabranch.engine.advancing.json_array import Items
from anabranch.engine.advancing.transitions import ABSENT, MAX_OUTPUT_BYTES, Absent, Facts, TooLarge, Values
from anabranch.engine.model import NodeState
from anabranch.engine.task_parameters import find_job_value
from anabranch.workflows.expressions import (
    Condition,
    Expression,
    ExpressionError,
    Missing,
    Reference,
    Template,
    evaluate,
    references,
    sole_reference,
    walk,
)

__all__ = ["KnownValues", "Unknown"]

MAX_VALUES_CHARS = 1_000_000
ENDING = Reference("job", ("ending",))  # how the job ends, which its cleanup nodes know


class Unknown(Exception):
    """An expression names outputs whose values were not given; they are noted."""


class KnownValues:
    """The values of one step: `states` and `made` are the states and outputs of its nodes so far."""

    def __init__(
        self, facts: Facts, values: Values, states: Mapping[str, NodeState], made: Mapping[str, JsonObject]
    ) -> None:
        """Nothing is needed yet."""
        self.needs: set[Reference] = set()
        self.sources: set[Reference] = set()
        self._facts = facts
        self._values = values
        self._states = states
        self._made = made
        self.ending = None if facts.ending is None else facts.ending.value

    def value(self, what: Expression | Condition | Template, subject: Json = None) -> Json:
        """The value of an expression."""
        self._require(what)
        return evaluate(what, self._resolve, subject)

    def fields(self, template: Template | None) -> JsonObject:
        """The value of a template that is an object."""
        value = {} if template is None else self.value(template)
        return value if isinstance(value, dict) else {}

    def source(self, template: Template) -> Json | Items:
        """The value of a fan-out's source: an output that it names alone goes by reference where it is large."""
        reference = sole_reference(template)
        if reference is None or reference.root != "nodes" or not self._is_stored(reference):
            return self.value(template)
        found = self._values.get(reference.path)
        if reference.path not in self._values or isinstance(found, TooLarge):
            self.needs.add(reference)
            self.sources.add(reference)
            raise Unknown
        return found if isinstance(found, Items) else self.value(template)

    def outputs_named(self, template: Template | None) -> JsonObject:
        """The values of the outputs that a task's parameters name, for its worker to fill in."""
        if template is None:
            return {}
        named = self._require(template)
        known = {str(Reference(ref.root, ref.path)): self._look_up(ref) for ref in sorted(named, key=str)}
        found = {name: value for name, value in known.items() if not isinstance(value, Absent)}
        if ENDING in references(template):
            found[str(ENDING)] = self.ending
        if (size := len(encode(found))) > MAX_VALUES_CHARS:
            raise ExpressionError(
                f"the outputs that its parameters name have {size:,} characters; at most {MAX_VALUES_CHARS:,} fit",
                hint="Write large data to storage and hand over its address.",
            )
        return found

    def output_of(self, name: str) -> JsonObject:
        """The output of a node that ends the job."""
        whole = Reference("nodes", (name, "output"))
        if self._is_stored(whole) and whole.path not in self._values:
            self.needs.add(whole)
            raise Unknown
        output = self._output(whole)
        return output if isinstance(output, dict) else {}

    def _look_up(self, reference: Reference) -> Json | Absent:
        try:
            return self._output(reference)
        except Missing:
            if reference.optional:
                return ABSENT
            raise

    def _require(self, what: Expression | Condition | Template) -> set[Reference]:
        """The outputs that an expression names; raises Unknown, and notes them as needs, if some are not loaded."""
        named = {reference for reference in references(what) if reference.root == "nodes"}
        unknown = {ref for ref in named if self._is_stored(ref) and ref.path not in self._values}
        if unknown:
            self.needs |= unknown
            raise Unknown
        return named

    def _resolve(self, reference: Reference) -> Json:
        if reference.root == "inputs":
            return walk(dict(self._facts.parameters), reference.path, reference)
        if reference == ENDING:
            return self.ending
        if reference.root == "job":
            return find_job_value(reference, self._facts.job_id, self._facts.tick)
        return self._output(reference)

    def _is_stored(self, reference: Reference) -> bool:
        """Whether an output is in the store: those of nodes that completed, but not in this step."""
        name = str(reference.path[0])
        return self._states.get(name) is NodeState.COMPLETED and name not in self._made

    def _output(self, reference: Reference) -> Json:
        name = str(reference.path[0])
        if name in self._made:
            return walk(self._made[name], reference.path[2:], reference)
        if self.ending is not None and self._states.get(name) is not NodeState.COMPLETED:
            return None  # a cleanup node asks, and the other one did not get that far
        found = self._values.get(reference.path, ABSENT)
        if isinstance(found, Absent):
            raise Missing(reference)
        if isinstance(found, TooLarge | Items):
            raise ExpressionError(
                f"nodes.{name}.output has {found.size:,} bytes; expressions may look into at most {MAX_OUTPUT_BYTES:,}",
                hint="Return what other nodes need as a small result, and write large data to storage.",
            )
        return found
