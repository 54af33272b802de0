"""The nodes of a workflow: one model for each kind, joined as a union."""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Discriminator, Field, StrictBool, Tag, ValidationInfo, model_validator
from pydantic.dataclasses import dataclass
from pydantic.json_schema import SkipJsonSchema

from anabranch.canonical import Json
from anabranch.workflows import values
from anabranch.workflows.edges import Branch
from anabranch.workflows.expressions import Condition, Template, parse_condition, read_template
from anabranch.workflows.inputs import Input, read_answer
from anabranch.workflows.mistakes import refuse
from anabranch.workflows.rules import DECLARED, FILLED, MAX_TASKS, Check, Model, Whole, declared, declared_keys, filled
from anabranch.workflows.work import HandlerWork, Mapped, Text, Time, WorkflowWork

__all__ = [
    "NAME",
    "NODES",
    "AnyNode",
    "ConditionalNode",
    "EndNode",
    "FanInNode",
    "FanOutNode",
    "Folding",
    "GateNode",
    "Kind",
    "Node",
    "OnFailure",
    "Spread",
    "StageNode",
    "StartNode",
    "TaskNode",
    "Tolerance",
    "WaitNode",
    "WorkflowNode",
    "WorkingNode",
]

NAME = f"{FILLED}name"  # the alias of a node's name, which is a key of the file, and not in its mapping


class Kind(StrEnum):
    """The type of a node. Nodes without tasks are settled as soon as they are reached."""

    TASK = "task"
    START = "start"
    END = "end"
    CONDITIONAL = "conditional"
    FAN_OUT = "fan_out"
    FAN_IN = "fan_in"
    GATE = "gate"
    WAIT = "wait"
    WORKFLOW = "workflow"

    @property
    def has_tasks(self) -> bool:
        """Whether it has tasks."""
        return self in (Kind.TASK, Kind.FAN_OUT, Kind.FAN_IN, Kind.WORKFLOW)

    @property
    def waits(self) -> bool:
        """Whether it stays open for a signal or a time, without any task."""
        return self in (Kind.GATE, Kind.WAIT)


class Spread(StrEnum):
    """How many tasks a stage has, and where they come from."""

    SINGLE = "single"
    FIXED = "fixed"
    DYNAMIC = "dynamic"
    FAN_OUT = "fan_out"
    FAN_IN = "fan_in"
    MATCH_PREVIOUS = "match_previous"


class OnFailure(StrEnum):
    """What a failed task means for its node and its job."""

    FAIL = "fail"
    FINISH = "finish"
    CONTINUE = "continue"


Count = Annotated[int | None, Whole()]


@dataclass(frozen=True)
class Folding(Model):
    """One member of a fan-in's output: a fold over the results, or over a part of each."""

    name: str
    fold: values.Fold
    field: str = ""


@dataclass(frozen=True)
class Tolerance(Model):
    """How many tasks of a fan-out may fail."""

    count: int = 0
    percent: float = 0

    def of(self, width: int) -> int:
        """The number of tasks that may fail, of `width` tasks."""
        return max(self.count, int(Fraction(str(self.percent)) * width / 100)) if self.percent else self.count


@dataclass(frozen=True, kw_only=True)
class Node(Model):
    """One step of a workflow. It waits for all of `after`, and for one of `after_any`."""

    kind: ClassVar[Kind]
    edges: ClassVar[tuple[str, ...]] = ("next", "depends_on")  # what a file may say about the order

    name: SkipJsonSchema[str] = Field(validation_alias=NAME)
    after: SkipJsonSchema[tuple[str, ...]] = filled("after", ())
    after_any: SkipJsonSchema[tuple[str, ...]] = filled("after_any", ())
    cleanup: SkipJsonSchema[bool] = filled("cleanup", False)
    description: str = declared("", "What it does, in a sentence.")
    when: Annotated[Json, Check(values.read_any, {"type": ["string", "boolean"]})] = declared(
        None, "A condition; where it is false, the node is skipped."
    )
    on_failure: OnFailure = declared(OnFailure.FAIL, "What its failure means for the job.")

    @property
    def parents(self) -> tuple[str, ...]:
        """Every node it waits for."""
        return (*self.after, *self.after_any)

    @property
    def work(self) -> HandlerWork | WorkflowWork | None:
        """What its own tasks do."""
        return None

    @cached_property
    def condition(self) -> Condition | None:
        """Its `when`, parsed."""
        return None if self.when is None else parse_condition(self.when, has_subject=False)


@dataclass(frozen=True, kw_only=True)
class StartNode(Node):
    """Where the work begins; it may be left out."""

    kind = Kind.START
    edges: ClassVar[tuple[str, ...]] = ("next",)

    when: SkipJsonSchema[Json] = filled("when", None)
    on_failure: SkipJsonSchema[OnFailure] = filled("on_failure", OnFailure.FAIL)


@dataclass(frozen=True, kw_only=True)
class EndNode(Node):
    """Where the work ends; it may be left out, or hold the job's result."""

    kind = Kind.END
    edges: ClassVar[tuple[str, ...]] = ("depends_on",)

    when: SkipJsonSchema[Json] = filled("when", None)
    on_failure: SkipJsonSchema[OnFailure] = filled("on_failure", OnFailure.FAIL)
    output: Mapped = declared(None, "The job's result: a mapping with expressions.", examples=[values.OUTPUT])

    @cached_property
    def output_template(self) -> Template | None:
        """The output, parsed."""
        return None if self.output is None else read_template(self.output)


@dataclass(frozen=True, kw_only=True)
class ConditionalNode(Node):
    """Takes the first branch whose condition holds; the others are skipped."""

    kind = Kind.CONDITIONAL
    edges: ClassVar[tuple[str, ...]] = ("depends_on",)

    on_failure: SkipJsonSchema[OnFailure] = filled("on_failure", OnFailure.FAIL)
    subject: Annotated[Json, Check(values.read_any, {})] = declared(
        None, "What the short conditions of the branches are about: an expression.", "condition_field"
    )
    branches: tuple[Branch, ...] = Field(
        description="The branches; the first whose condition holds is taken, and the last is the default.",
        json_schema_extra={"minItems": 1},
    )

    @cached_property
    def subject_template(self) -> Template | None:
        """What the short conditions are about, parsed."""
        return None if self.subject is None else read_template(self.subject)


@dataclass(frozen=True, kw_only=True)
class TaskNode(Node, HandlerWork):
    """One task: a handler and its parameters. A cleanup node runs after all others, however these end."""

    kind = Kind.TASK

    cleanup: StrictBool = declared(
        False, "Whether it runs at the end of the job, also of one that fails or is cancelled.", "finally"
    )

    @property
    def work(self) -> HandlerWork:
        """Its own task."""
        return self


@dataclass(frozen=True, kw_only=True)
class StageNode(TaskNode):
    """A stage that a class declares; the class may plan its tasks, and aggregate their results."""

    assumed: ClassVar[Mapping[str, Json]] = {}

    handler: str = Field(validation_alias="task_type")
    spread: Spread = Field(default=Spread.SINGLE, validation_alias="parallelism")
    count: Annotated[int | None, Whole(0, MAX_TASKS)] = None
    count_param: str | None = None
    lineage: StrictBool = Field(default=False, validation_alias="uses_lineage")
    max_running: Count = Field(default=None, validation_alias="max_parallel_tasks")
    planned: bool = filled("planned", False)
    aggregated: bool = filled("aggregated", False)
    cleanup: bool = filled("cleanup", False)
    description: str = filled("description", "")
    when: Json = filled("when", None)
    params: None = filled("params", None)
    priority: int | None = filled("priority", None)
    limit: Json = filled("limit", None)


@dataclass(frozen=True, kw_only=True)
class WorkflowNode(Node, WorkflowWork):
    """Runs a job of another workflow."""

    kind = Kind.WORKFLOW

    @property
    def work(self) -> WorkflowWork:
        """Its own job."""
        return self


@dataclass(frozen=True, kw_only=True)
class FanOutNode(Node):
    """A task for each item of an array."""

    kind = Kind.FAN_OUT

    source: Annotated[Json, Check(values.read_any, {"type": ["string", "array"]})] = Field(
        description="The array of items: an expression, or a list.", examples=["{{ inputs.files }}"]
    )
    task: HandlerWork | WorkflowWork = Field(
        description="The task, or the job of a workflow, that is run for each item.", examples=[{"handler": "echo"}]
    )
    max_items: Count = declared(None, "How many items there may be; more fail the node.")
    max_running: Count = declared(None, "How many of its tasks may run at once.", "concurrency")
    batch_size: Count = declared(None, "How many items one task gets, as a list.")
    tolerate: Annotated[Tolerance, Check(values.read_tolerance, values.TOLERANCE_SCHEMA)] = declared(
        Tolerance(), "How many of its tasks may fail: a number, or a share such as 5 %."
    )

    @model_validator(mode="before")
    @classmethod
    def _lift_task(cls, given: Any) -> Any:  # whatever is validated
        """The stored text has the fields of the task beside those of the node."""
        if isinstance(given, dict) and "kind" in given and "task" not in given:
            own = {field for field in cls.__pydantic_fields__ if field != "task"}  # type: ignore[attr-defined]  # by pydantic
            task = {key: value for key, value in given.items() if key not in own}
            return {**{key: value for key, value in given.items() if key in own}, "task": task}
        return given

    @property
    def work(self) -> HandlerWork | WorkflowWork:
        """The task of an item."""
        return self.task

    @cached_property
    def source_template(self) -> Template:
        """What there is a task for each item of, parsed."""
        return read_template(self.source)


@dataclass(frozen=True, kw_only=True)
class FanInNode(Node):
    """Collects the results of the nodes right before it: of a fan_out all, of others the one.

    `sources` are these nodes in their order; none is said where it is only one fan_out, among nodes without tasks.
    """

    kind = Kind.FAN_IN
    assumed: ClassVar[Mapping[str, Json]] = {"aggregation": "collect"}

    folding: Annotated[tuple[Folding, ...], Check(values.read_folding, values.FOLDING_SCHEMA)] = declared(
        (), "One fold of all results, or several by name, each of a field.", "aggregation"
    )
    queue: Text = declared(None, "The queue of its tasks, in place of the handler's.")
    sources: SkipJsonSchema[tuple[str, ...]] = filled("sources", ())


@dataclass(frozen=True, kw_only=True)
class GateNode(Node):
    """Waits for a person's approval or a signal from elsewhere, which is its output."""

    kind = Kind.GATE

    timeout: Time = declared(None, "How long it waits for its signal, in seconds.", "timeout_seconds")
    answer: Annotated[Mapping[str, Input] | None, Check(read_answer, {"type": "object"})] = declared(
        None, "The fields of the signal that it takes, by name; without it, any."
    )


@dataclass(frozen=True, kw_only=True)
class WaitNode(Node):
    """Waits for some time, or until a time."""

    kind = Kind.WAIT

    duration_seconds: Annotated[Json, Check(values.read_duration, values.DURATION_SCHEMA)] = declared(
        None, "How long it waits, in seconds: a number, or an expression."
    )
    until: Annotated[Json, Check(values.read_time, values.TIME_SCHEMA)] = declared(
        None, "When it ends: a time with its zone, or an expression."
    )

    @model_validator(mode="before")
    @classmethod
    def _choose(cls, given: Any, info: ValidationInfo) -> Any:  # whatever is validated
        if info.context is DECLARED and isinstance(given, dict) and given.keys() <= {*declared_keys(cls), NAME}:
            ends = [key for key in given if key in ("duration_seconds", "until") and given[key] is not None]
            if len(ends) != 1:
                hint = "Keep one." if ends else "Add one."
                raise refuse("a wait has either duration_seconds or until", hint, *ends[1:], of_value=False)
        return given

    @cached_property
    def time_template(self) -> Template:
        """How long it lasts, or when it ends, parsed."""
        return read_template(self.duration_seconds if self.until is None else self.until)


WorkingNode = TaskNode | FanOutNode | WorkflowNode  # those with tasks of their own
NODES: dict[Kind, type[Node]] = {
    node.kind: node
    for node in (
        TaskNode, StartNode, EndNode, ConditionalNode, FanOutNode, FanInNode, GateNode, WaitNode, WorkflowNode,
    )
}  # fmt: skip


def _tag(given: Any) -> str:  # a node, or the stored text of one
    if not isinstance(given, dict):
        return "stage" if isinstance(given, StageNode) else str(given.kind)
    kind = given.get("kind", Kind.TASK)
    return "stage" if kind == Kind.TASK and "params" not in given else str(kind)


AnyNode = Annotated[
    Annotated[TaskNode, Tag("task")]
    | Annotated[StageNode, Tag("stage")]
    | Annotated[StartNode, Tag("start")]
    | Annotated[EndNode, Tag("end")]
    | Annotated[ConditionalNode, Tag("conditional")]
    | Annotated[FanOutNode, Tag("fan_out")]
    | Annotated[FanInNode, Tag("fan_in")]
    | Annotated[GateNode, Tag("gate")]
    | Annotated[WaitNode, Tag("wait")]
    | Annotated[WorkflowNode, Tag("workflow")],
    Discriminator(_tag),
]
