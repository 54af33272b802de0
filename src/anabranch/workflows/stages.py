"""Stages declared in Python become a Workflow. Both spellings of the declaration are read here, and only here."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.dataclasses import dataclass as model_dataclass
from pydantic.errors import PydanticInvalidForJsonSchema

from anabranch.canonical import Json, JsonObject, encode
from anabranch.errors import ContractViolationError, DefinitionError, InputError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.first_calls import FirstCall
from anabranch.workflows.inputs import (
    Input,
    InvalidParameters,
    ParameterMistake,
    check_inputs,
    inputs_schema,
    read_input,
)
from anabranch.workflows.mistakes import list_errors, refuse, show
from anabranch.workflows.nodes import NAME, GateNode, Node, Spread, StageNode
from anabranch.workflows.reading import read
from anabranch.workflows.rules import FILLED, MAX_TASKS, Check, Model, Whole, declared_keys
from anabranch.workflows.validation import require_sound

__all__ = ["Declaration", "Job", "JobBase", "JobDeclaration", "TaskSpec", "classes_in", "declare", "register_job"]

_MARK = "__anabranch_job__"
_IGNORED = ("generate_job_id", "create_job_record", "queue_job")
_PRINTED = ("stage", "params", "job_id", "previous_results")
_NAMED = {**{name: name for name in _PRINTED}, "job_params": "params", "parameters": "params"}
_TASK = {"parameters", "index", "task_id", "task_type", "metadata"}


class Job:
    """Base of job declarations; it adds nothing but a name to look for."""

    job_type: ClassVar[str]


JobBase = Job
JobDeclaration = Job
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class TaskSpec:
    """A task as a planner names it."""

    parameters: Mapping[str, Any] = field(default_factory=dict)  # JSON, checked when the plan is stored
    index: int | str | None = None
    task_type: str | None = None
    metadata: Mapping[str, Any] | None = None  # JSON, checked when the plan is stored


def _read_numbers(value: Any) -> tuple[int, ...]:
    """The stages that a stage comes after: one number, or a list."""
    numbers = value if isinstance(value, list | tuple) else [value]
    for number in numbers:
        Whole().read(number)
    if len(set(numbers)) < len(numbers) or not numbers:
        raise refuse(f"{{key}} is the number of a stage, or a list of different ones, not {value}")
    return tuple(numbers)


@model_dataclass(frozen=True)
class Stage(Model):
    """Where a stage is among the others."""

    number: Annotated[int, Whole()]
    name: str
    depends_on_stage: Annotated[tuple[int, ...] | None, Check(_read_numbers, {})] = None


_NODES: Mapping[str, type[StageNode | GateNode]] = {"task": StageNode, "gate": GateNode}


@dataclass(frozen=True)
class Declaration:
    """A registered job type: its workflow, and the functions of its class that the engine calls, if it has one.

    `parts` are the workflows that its nodes run jobs of, and those below them; `first_calls` check what jobs are given.
    """

    workflow: Workflow
    instance: object = None
    stages: Mapping[str, int] = field(default_factory=dict)
    model: type[BaseModel] | None = None
    ignored: tuple[str, ...] = ()
    origin: str = ""
    parts: tuple[Workflow, ...] = ()
    first_calls: tuple[FirstCall, ...] = ()

    @property
    def inputs_schema(self) -> JsonObject:
        """The JSON Schema of its inputs; any object if it declares none."""
        anything: JsonObject = {"type": "object"}
        if self.model is None:
            return anything if self.workflow.inputs is None else inputs_schema(self.workflow.inputs)
        try:
            return self.model.model_json_schema()
        except PydanticInvalidForJsonSchema:  # a type of the plugin's own
            return anything

    def check(self, given: Mapping[str, Json]) -> JsonObject:
        """The job's parameters, checked and with defaults applied, or InputError (G9)."""
        checked = self._check(given)
        for node in self.workflow.nodes:
            if not isinstance(node, StageNode):
                continue
            count = checked.get(node.count_param or "")
            if isinstance(count, int) and count > MAX_TASKS:
                raise InputError("node.count", f"{node.name}: {node.count_param} is at most {MAX_TASKS:,} tasks")
        return checked

    def _check(self, given: Mapping[str, Json]) -> JsonObject:
        checked = dict(given)
        if self.model is not None:
            checked = _check_model(self.model, checked)
        elif self.workflow.inputs is not None:
            checked = check_inputs(
                self.workflow.inputs,
                checked,
                lambda known, wrong: [one for call in self.first_calls for one in call.find_mistakes(known, wrong)],
            )
        validate = getattr(self.instance, "validate_job_parameters", None)
        if validate is None:
            return checked
        try:
            answer = validate(checked)
        except ValueError as error:
            raise InputError("job.parameters", str(error)) from error
        if answer is not None and not isinstance(answer, Mapping):
            raise ContractViolationError(f"validate_job_parameters returned {type(answer).__name__}, not a dict")
        return checked if answer is None else dict(answer)

    def plan(self, node: Node, params: JsonObject, job_id: str, previous: Sequence[Json]) -> list[Json]:
        """The planner's tasks for a node, in the form the store keeps."""
        stage = self.stages[node.name]
        given = self.model.model_validate(params) if self.model else params
        planner = self.instance.create_tasks_for_stage  # type: ignore[attr-defined]  # a planned node's class has it
        values = {"stage": stage, "params": given, "job_id": job_id, "previous_results": previous}
        positional, named = _match(planner)
        tasks = planner(*(values[role] for role in positional), **{name: values[role] for name, role in named.items()})
        if not isinstance(tasks, Sequence) or isinstance(tasks, str):
            raise ContractViolationError(f"create_tasks_for_stage({stage}) returned {type(tasks).__name__}, not a list")
        if len(tasks) > MAX_TASKS:
            found = f"{len(tasks):,} tasks; a stage has at most {MAX_TASKS:,}"
            raise ContractViolationError(f"create_tasks_for_stage({stage}) returned {found}")
        if isinstance(node, StageNode) and node.spread is Spread.MATCH_PREVIOUS and len(tasks) != len(previous):
            raise ContractViolationError(
                f"create_tasks_for_stage({stage}) returned {len(tasks)} tasks; match_previous needs {len(previous)}"
            )
        return _items(tasks, node, job_id, stage)

    def aggregate(self, node: Node, results: Sequence[Json]) -> object:
        """The answer of `aggregate_stage_results` for a node."""
        return self.instance.aggregate_stage_results(self.stages[node.name], results)  # type: ignore[attr-defined]  # as above


def register_job(declared: Class) -> Class:
    """Declare a class as a job type."""
    setattr(declared, _MARK, declared)
    return declared


def classes_in(namespace: Mapping[str, object]) -> list[type]:
    """The job classes that a module declares, by decorator or in its `ALL_JOBS`."""
    found = [value for value in namespace.values() if getattr(value, _MARK, None) is value]
    listed = namespace.get("ALL_JOBS", {})
    if not isinstance(listed, dict):
        raise DefinitionError("plugin.invalid", "ALL_JOBS must be a dict of names and classes")
    return [value for value in dict.fromkeys([*found, *listed.values()]) if isinstance(value, type)]


def declare(declared: type) -> Declaration:
    """The Declaration of a class with stages; every mistake in it is a DefinitionError that names the class."""
    name = _either(declared, "job_type", "JOB_TYPE", "")
    if not isinstance(name, str) or not name:
        raise DefinitionError("workflow.invalid", f"{declared.__qualname__} has no job_type")
    inputs, model = _schema(name, _either(declared, "parameters_schema", "PARAMETERS", None))
    instance = _instance(name, declared)
    most = _either(declared, "max_parallel_tasks", "MAX_PARALLEL_TASKS", None)
    stages = _stages(name, _either(declared, "stages", "STAGES", []), instance, most)
    workflow = require_sound(
        Workflow(
            id=name,
            description=str(getattr(declared, "description", "") or inspect.getdoc(declared) or "").split("\n")[0],
            rerun=_either(declared, "rerun", "RERUN", False) is True,
            inputs=inputs,
            nodes=tuple(_linked(stages)),
        )
    )
    ignored = tuple(method for method in _IGNORED if hasattr(declared, method))
    return Declaration(workflow, instance, {stage.name: stage.number for stage, _ in stages}, model, ignored)


def _either(declared: type, ours: str, theirs: str, default: object) -> Any:  # checked by the caller
    return getattr(declared, ours, getattr(declared, theirs, default))


def _schema(job_type: str, given: object) -> tuple[dict[str, Input] | None, type[BaseModel] | None]:
    if given is None or (isinstance(given, type) and issubclass(given, BaseModel)):
        return None, given
    if isinstance(given, Mapping) and all(isinstance(value, Mapping) for value in given.values()):
        return {key: read_input(key, value) for key, value in given.items()}, None
    raise DefinitionError(
        "workflow.invalid",
        f"job {job_type!r}: parameters_schema is neither a dict of inputs nor a pydantic model",
        remedy='Write {"n": {"type": "int", "default": 3}}, a class, or nothing for any parameters.',
    )


def _instance(job_type: str, declared: type) -> object:
    try:
        instance = declared()
    except Exception as error:  # a declaration's own code may raise anything
        raise DefinitionError("workflow.invalid", f"job {job_type!r}: {declared.__qualname__}(): {error}") from error
    if planner := getattr(instance, "create_tasks_for_stage", None):
        _match(planner)
    return instance


def _match(planner: Callable[..., object]) -> tuple[list[str], dict[str, str]]:
    """What a planner takes, by position and by name: known by its names, else by the printed order."""
    parameters = list(inspect.signature(planner).parameters.values())
    spare = [role for role in _PRINTED if role not in {_NAMED.get(parameter.name) for parameter in parameters}]
    has_rest = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    positional: list[str] = []
    named: dict[str, str] = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += spare
            spare = []
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= {role: role for role in spare}
        elif role := _role(parameter, spare):
            if parameter.kind is parameter.POSITIONAL_ONLY or (
                has_rest and parameter.kind is not parameter.KEYWORD_ONLY
            ):
                positional.append(role)
            else:
                named[parameter.name] = role
    return positional, named


def _role(parameter: inspect.Parameter, spare: list[str]) -> str | None:
    """What a parameter is given; None: its default."""
    if parameter.name in _NAMED:
        return _NAMED[parameter.name]
    if spare and parameter.kind is not parameter.KEYWORD_ONLY:
        return spare.pop(0)
    if parameter.default is parameter.empty:
        raise DefinitionError(
            "workflow.invalid",
            f"create_tasks_for_stage takes {parameter.name!r}, which nobody gives it",
            remedy=f"It is given {', '.join(_PRINTED)}.",
        )
    return None


def _stages(
    job_type: str, given: Sequence[Mapping[str, Any]], instance: object, max_parallel_tasks: int | None
) -> list[tuple[Stage, StageNode | GateNode]]:
    """The stages in order, each with its node; the nodes don't have their edges yet.

    What a job says of `max_parallel_tasks` holds for each stage that says nothing of it.
    """
    mistakes, stages = [], []
    for position, raw in enumerate(given, 1):
        try:
            keys = _one_spelling(raw)
            model = _read_type(keys.pop("type", "task"))
        except (ValueError, TypeError) as error:
            mistakes.append(f"stage {position}: {error}")
            continue
        placed = read(Stage, {key: keys.pop(key) for key in declared_keys(Stage) if key in keys}, "a stage")
        if model is StageNode:
            made = {"planned": "create_tasks_for_stage", "aggregated": "aggregate_stage_results"}
            filled = {f"{FILLED}{name}": hasattr(instance, method) for name, method in made.items()}
            keys = {"max_parallel_tasks": max_parallel_tasks, **keys, **filled}
        what = "a stage" if model is StageNode else "a gate"
        found = read(model, {**keys, NAME: ""}, what, beside=(*declared_keys(Stage), "type"))
        mistakes += [f"stage {position}: {mistake.message}" for mistake in (*placed.mistakes, *found.mistakes)]
        if placed.value and found.value:
            stages.append((placed.value, replace(found.value, name=placed.value.name)))
    numbers = [stage.number for stage, _ in stages]
    mistakes += [f"duplicate stage number {n}" for n in sorted(set(numbers)) if numbers.count(n) > 1]
    if mistakes:
        raise DefinitionError("workflow.invalid", f"job {job_type!r}: " + "; ".join(mistakes))
    return sorted(stages, key=lambda stage: stage[0].number)


def _one_spelling(raw: Mapping[str, Any]) -> dict[str, Any]:  # raw declaration
    stage = dict(raw)
    for theirs, ours in (("stage_number", "number"), ("stage_name", "name"), ("timeout_minutes", "timeout_seconds")):
        if theirs in stage and ours in stage:
            raise ValueError(f"{ours} and {theirs} say the same: keep one")
        if theirs in stage:
            given = stage.pop(theirs)
            stage[ours] = given * 60 if theirs == "timeout_minutes" else given
    stage.setdefault("name", f"stage{stage.get('number')}")
    return stage


def _read_type(given: object) -> type[StageNode | GateNode]:
    if given not in _NODES:
        raise ValueError(f"type is {' or '.join(_NODES)}, not {show(given)}")
    return _NODES[str(given)]


def _linked(stages: Sequence[tuple[Stage, StageNode | GateNode]]) -> Iterator[StageNode | GateNode]:
    """The nodes, each after the stage or stages that it names, else after the one before."""
    names = {stage.number: stage.name for stage, _ in stages}
    gates = {stage.number for stage, node in stages if isinstance(node, GateNode)}
    for position, (stage, node) in enumerate(stages):
        wanted = stage.depends_on_stage
        for number in wanted or ():
            if number not in names or number >= stage.number:
                raise DefinitionError("workflow.invalid", f"stage {stage.number} depends on stage {number}")
        if wanted and len(wanted) > 1 and not (isinstance(node, StageNode) and node.spread is Spread.FAN_IN):
            raise DefinitionError("workflow.invalid", f"stage {stage.number} is no fan_in, and depends on several")
        before = [stage.number for stage, _ in stages[:position]][-1:] if wanted is None else wanted
        if isinstance(node, StageNode) and (node.lineage or node.spread is Spread.MATCH_PREVIOUS) and gates & {*before}:
            said = f"stage {stage.number} needs tasks in the stage before it, and stage {before[0]} is a gate"
            raise DefinitionError("workflow.invalid", said)
        yield replace(node, after=tuple(names[number] for number in before))


def _check_model(model: type[BaseModel], given: JsonObject) -> JsonObject:
    try:
        return model.model_validate(given).model_dump(mode="json", by_alias=True)
    except ValidationError as error:
        found, more = list_errors(error)
        mistakes = [ParameterMistake.of_model(one, *one["loc"]) for one in found]
        if more:
            mistakes.append(ParameterMistake("", more))
        raise InvalidParameters(mistakes) from error


def _items(tasks: Sequence[object], node: Node, job_id: str, stage: int) -> list[Json]:
    items: list[Json] = []
    for position, task in enumerate(tasks):
        spec = task if isinstance(task, TaskSpec) else _spec(task, node, job_id, stage)
        if isinstance(spec.index, bool) or not isinstance(spec.index, int | str | None):
            raise ContractViolationError(f"create_tasks_for_stage({stage}) names the index {spec.index!r}")
        key = str(position if spec.index is None else spec.index)
        items.append({"key": key, "handler": spec.task_type, "parameters": dict(spec.parameters),
                      "metadata": None if spec.metadata is None else dict(spec.metadata)})  # fmt: skip
    keys = [item["key"] for item in items if isinstance(item, dict)]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ContractViolationError(f"create_tasks_for_stage({stage}) names the index {twice!r} twice")
    encode(items)
    return items


def _spec(task: object, node: Node, job_id: str, stage: int) -> TaskSpec:
    if not isinstance(task, Mapping):
        raise ContractViolationError(f"create_tasks_for_stage({stage}) returned a task that is not a dict: {task!r}")
    if not isinstance(task.get("parameters"), Mapping):
        return TaskSpec(parameters=task, index=task.get("index"))
    if unknown := sorted(map(str, set(task) - _TASK)):
        raise ContractViolationError(
            f"create_tasks_for_stage({stage}) returned a task with parameters and, beside them, {', '.join(unknown)}"
        )
    index = task.get("index")
    if index is None and "task_id" in task:
        index = _index_of(str(task["task_id"]), node, job_id, stage)
    return TaskSpec(task["parameters"], index, task.get("task_type"), task.get("metadata"))


def _index_of(task_id: str, node: Node, job_id: str, stage: int) -> str:
    rest = task_id
    for prefix in (f"{job_id}-", f"{job_id[:8]}-"):
        rest = rest.removeprefix(prefix)
    for prefix in (f"s{stage}-", f"stage{stage}-", f"{stage}-", f"{node.name}-"):
        if rest.startswith(prefix) and rest != prefix:
            return rest.removeprefix(prefix)
    return rest
