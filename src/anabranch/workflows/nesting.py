"""Workflows that run jobs of other workflows: pinned to each other by hash, from the innermost out (E16)."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.canonical import Json
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import ExpressionError, check, read_template
from anabranch.workflows.expressions.templates import Fixed
from anabranch.workflows.inputs import Input, find_value_mistakes, fits_type
from anabranch.workflows.mistakes import Mistake, Path, article, guess, nearest, quote
from anabranch.workflows.nodes import AnyNode, FanOutNode, WorkflowNode
from anabranch.workflows.scope import Before, Scope
from anabranch.workflows.stages import Declaration
from anabranch.workflows.validation import find_model_mistakes
from anabranch.workflows.work import WorkflowWork

__all__ = ["MAX_DEPTH", "Nested", "nest"]

MAX_DEPTH = 8
_MAX_SHOWN_WORKFLOWS = 8  # of a cycle


@dataclass
class Nested:
    """Workflows with their parts, and those that can't have them, each with its mistakes."""

    declarations: dict[str, Declaration] = field(default_factory=dict)
    refused: dict[str, tuple[Mistake, ...]] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)


def nest(declared: Mapping[str, Declaration], broken: Mapping[str, str] | None = None) -> Nested:
    """Pin every workflow to the definitions of those it runs; one that runs itself, in the end, is refused.

    `broken` are workflows with mistakes of their own, each with its file.
    """
    return _Nest(declared, broken or {}).build()


class _Nest:
    """Settles all workflows, each after those that it runs."""

    def __init__(self, declared: Mapping[str, Declaration], broken: Mapping[str, str]) -> None:
        self.declared = declared
        self.broken = broken
        self.nested = Nested()
        self.runs = {
            name: [work.workflow for _, work in _running_jobs(one.workflow)] for name, one in self.declared.items()
        }

    def build(self) -> Nested:
        left = self._settle({name: {to for to in runs if to in self.declared} for name, runs in self.runs.items()})
        for name in left:
            if ring := self._find_cycle(name, left):
                self.nested.refused[name] = tuple(self._cycle_mistakes(name, ring))
        self._settle({name: runs - self.nested.refused.keys() for name, runs in left.items()})
        order = [name for name in self.declared if name in self.nested.declarations]
        self.nested.declarations = {name: self.nested.declarations[name] for name in order}
        self.nested.refused = {name: self.nested.refused[name] for name in self.declared if name in self.nested.refused}
        return self.nested

    def _settle(self, waits: dict[str, set[str]]) -> dict[str, set[str]]:
        """Settle every workflow whose parts are settled; returns those that are left, in or before a cycle."""
        parents: dict[str, list[str]] = {}
        for name, runs in waits.items():
            for one in runs:
                parents.setdefault(one, []).append(name)
        ready = deque(name for name, runs in waits.items() if not runs and name not in self.nested.refused)
        settled = set()
        while ready:
            name = ready.popleft()
            settled.add(name)
            self._place(name)
            for parent in parents.get(name, ()):
                waits[parent].discard(name)
                if not waits[parent] and parent not in self.nested.refused:
                    ready.append(parent)
        return {name: runs for name, runs in waits.items() if name not in settled}

    def _place(self, name: str) -> None:
        workflow = self.declared[name].workflow
        if mistakes := tuple(self._mistakes(workflow)):
            self.nested.refused[name] = mistakes
        elif name not in self.broken:
            self._pin(name, workflow)

    def _pin(self, name: str, workflow: Workflow) -> None:
        nested = self.nested
        below = [nested.declarations[one] for one in self.runs[name]]
        nested.depths[name] = 1 + max((nested.depths[part.workflow.id] for part in below), default=0)
        nodes = tuple(self._pinned(node) for node in workflow.nodes)
        parts = {part.hash: part for one in below for part in (one.workflow, *one.parts)}
        pinned = replace(workflow, nodes=nodes)
        nested.declarations[name] = replace(self.declared[name], workflow=pinned, parts=tuple(parts.values()))

    def _pinned(self, node: AnyNode) -> AnyNode:
        match node:
            case WorkflowNode():
                return replace(node, workflow_hash=self.nested.declarations[node.workflow].workflow.hash)
            case FanOutNode(task=WorkflowWork() as task):
                pinned = replace(task, workflow_hash=self.nested.declarations[task.workflow].workflow.hash)
                return replace(node, task=pinned)
            case _:
                return node

    def _find_cycle(self, name: str, left: Mapping[str, set[str]]) -> list[str] | None:
        """The shortest path from a workflow to itself."""
        came: dict[str, str] = {}
        ahead = deque([name])
        while ahead:
            at = ahead.popleft()
            for to in sorted(left.get(at, ())):
                if to == name:
                    way = [at]
                    while way[-1] != name:
                        way.append(came[way[-1]])
                    return [*reversed(way), name]
                if to not in came:
                    came[to] = at
                    ahead.append(to)
        return None

    def _cycle_mistakes(self, name: str, ring: Sequence[str]) -> Iterator[Mistake]:
        more = len(ring) - 1 - _MAX_SHOWN_WORKFLOWS
        shown = ring if more <= 0 else [*ring[: _MAX_SHOWN_WORKFLOWS - 1], f"({more:,} more)", *ring[-2:]]
        message = "a workflow can't run itself" + (
            "" if len(ring) == 2 else f", and this one would: {' → '.join(shown)}"
        )
        hint = "Name another." if len(ring) == 2 else "Remove one of these steps."
        for node, work in _running_jobs(self.declared[name].workflow):
            if work.workflow == ring[1]:
                yield Mistake(_at(node, "workflow"), message, hint, of_value=True)

    def _mistakes(self, workflow: Workflow) -> Iterator[Mistake]:
        before = Before(workflow.nodes)
        for node, work in _running_jobs(workflow):
            child = self.nested.declarations.get(work.workflow)
            if child is None:
                yield self._absent(node, work.workflow)
            elif self.nested.depths[work.workflow] >= MAX_DEPTH:
                message = f"workflows run workflows at most {MAX_DEPTH} deep, and {quote(work.workflow)} is that deep"
                yield Mistake(_at(node, "workflow"), message, "Put its nodes into one of those between.", of_value=True)
            else:
                scope = Scope(workflow, node.name, before, has_item=isinstance(node, FanOutNode))
                yield from _input_mistakes(node, work, child, scope)
                yield from _limit_mistakes(node, work, child)

    def _absent(self, node: AnyNode, name: str) -> Mistake:
        at = _at(node, "workflow")
        if name in self.declared or name in self.broken:
            origin = self.broken.get(name) or self.declared[name].origin
            return Mistake(at, f"the workflow {quote(name)} was refused", _fix_first(origin), of_value=True)
        hint = nearest(name, list(self.declared)) or "List them with `anabranch workflows list`."
        return Mistake(at, f"there is no workflow {quote(name)}", hint, of_value=True)


def _fix_first(origin: str) -> str:
    return f"Fix {origin.rsplit('/', 1)[-1]} first." if origin else "Fix it first."


def _running_jobs(workflow: Workflow) -> Iterator[tuple[AnyNode, WorkflowWork]]:
    return ((node, node.work) for node in workflow.nodes if isinstance(node.work, WorkflowWork))


def _at(node: AnyNode, *key: str) -> Path:
    return ("nodes", node.name, *(("task",) if isinstance(node, FanOutNode) else ()), *key)


def _input_mistakes(node: AnyNode, work: WorkflowWork, child: Declaration, scope: Scope) -> Iterator[Mistake]:
    if work.params is None:  # they could not be read
        return
    given, inputs, name = work.params, child.workflow.inputs, child.workflow.id
    lacking = _at(node, "params" if given else "workflow")  # where it is said that something is missing
    if child.model is not None:
        yield from find_model_mistakes(given, child.model, name, "input", _at(node, "params"), lacking)
        return
    if inputs is None:
        return
    for key, value in given.items():
        at = _at(node, "params", key)
        if key not in inputs:
            hint = nearest(key, list(inputs)) or f"It takes {', '.join(inputs) or 'nothing'}."
            yield Mistake(at, f"{name} takes no input {quote(key)}", hint)
        elif said := _value_mistake(value, inputs[key], scope):
            yield Mistake(at, f"the input {quote(key)} of {name} {said}", of_value=True)
    unknown = [key for key in given if key not in inputs]
    for key, wanted in inputs.items():
        is_missing = wanted.required and not wanted.has_default and key not in given
        if is_missing and guess(key, unknown) is None:
            yield Mistake(lacking, f"{name} needs the input {quote(key)}", "Add it to params.")


def _value_mistake(value: Json, wanted: Input, scope: Scope) -> str:
    """What is wrong with a value, as far as it is known at load."""
    try:
        template = read_template(value)
        if isinstance(template.part, Fixed):
            return next(iter(find_value_mistakes(wanted, template.part.value)), "")
        kind = check(template, scope.type_of)
    except ExpressionError:  # it is reported where it is written
        return ""
    return "" if fits_type(wanted, kind) else f"must be {article(wanted.type)}, not {article(kind)}"


def _limit_mistakes(node: AnyNode, work: WorkflowWork, child: Declaration) -> Iterator[Mistake]:
    """A task that runs as a job holds a slot of its limit while the tasks of that job wait for one."""
    inner = (one.work.limit for part in (child.workflow, *child.parts) for one in part.nodes if one.work is not None)
    if work.limit is not None and work.limit in inner:
        message = (
            f"nodes inside {child.workflow.id} have this limit too, and would wait for the slot that this one holds"
        )
        yield Mistake(_at(node, "limit"), message, "Limit one of them.", of_value=True)
