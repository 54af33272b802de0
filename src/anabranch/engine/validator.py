"""Find every mistake of a workflow before any job runs it (G4)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches

from anabranch.engine.canonical import Json
from anabranch.engine.errors import DefinitionError
from anabranch.engine.expressions import (
    Condition,
    ExpressionError,
    Reference,
    Template,
    TypeName,
    check,
    check_all,
    find_mistakes,
    parse_condition,
    read_template,
)
from anabranch.engine.handler import Handler, Runs
from anabranch.engine.workflow import Branch, Kind, Node, Spread, Workflow

__all__ = ["Mistake", "find_handler_mistakes", "find_workflow_mistakes", "nearest", "require_sound"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Mistake:
    """What is wrong, where in the definition, and what to do; `offset` is a place inside a text."""

    path: Path
    message: str
    hint: str = ""
    offset: int | None = None


def require_sound(workflow: Workflow) -> Workflow:
    """The workflow, or DefinitionError with every mistake in it."""
    if found := find_workflow_mistakes(workflow):
        said = "; ".join(f"{'.'.join(map(str, m.path[1:])) + ': ' if m.path[1:] else ''}{m.message}" for m in found)
        raise DefinitionError("workflow.invalid", f"workflow {workflow.id!r}: {said}")
    return workflow


def find_workflow_mistakes(workflow: Workflow) -> list[Mistake]:
    """Every mistake that shows without knowing the handlers."""
    found = list(_naming(workflow))
    cycle = set(_cycle(workflow))
    if cycle:
        found.append(_cycle_mistake(workflow, cycle))
    ancestors = {} if cycle else _ancestors(workflow)
    if not cycle:
        found += _unreachable(workflow)
    for node in workflow.nodes:
        found += _node_mistakes(node, workflow)
        found += _expression_mistakes(node, workflow, ancestors.get(node.name))
    if workflow.output is not None:
        everything = None if cycle else {node.name for node in workflow.nodes}
        found += _template_mistakes(workflow.output, ("output",), _Scope(workflow, everything, has_item=False))
    return found


def find_handler_mistakes(workflow: Workflow, handlers: Mapping[str, Handler]) -> list[Mistake]:
    """Every mistake in how a workflow uses handlers: unknown ones, and parameters that they don't take."""
    found: list[Mistake] = []
    for node in workflow.nodes:
        if node.handler:
            found += _handler_mistakes(node, handlers)
    return found


def nearest(word: str, known: Sequence[str]) -> str:
    """A hint at what may have been meant."""
    close = get_close_matches(word, known, 1, 0.6)
    return f"Did you mean {close[0]!r}?" if close else ""


def _naming(workflow: Workflow) -> Iterator[Mistake]:
    names = [node.name for node in workflow.nodes]
    if not names:
        yield Mistake(("nodes",), "it has no nodes")
    if not ID.fullmatch(workflow.id):
        yield Mistake(("workflow_id",), "its id must be a word of letters, digits, _, . and -, at most 63 long")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Mistake(("nodes", name), f"the name {name!r} stands twice")
    for name in names:
        if not NAME.fullmatch(name):
            yield Mistake(("nodes", name), f"{name!r} can't be a node's name", "Use letters, digits and _, at most 63.")
    starts = [node.name for node in workflow.nodes if node.kind is Kind.START]
    for name in starts[1:]:
        yield Mistake(("nodes", name), f"there is a start already: {starts[0]!r}")


def _cycle(workflow: Workflow) -> list[str]:
    """The nodes that wait for each other."""
    waiting = {node.name: {name for name in node.parents if name in workflow.names} for node in workflow.nodes}
    while free := [name for name, parents in waiting.items() if not parents]:
        for name in free:
            del waiting[name]
        for parents in waiting.values():
            parents.difference_update(free)
    return list(waiting)


def _cycle_mistake(workflow: Workflow, caught: set[str]) -> Mistake:
    """A way around, in the order in which it runs."""
    way = [next(node.name for node in workflow.nodes if node.name in caught)]
    while True:
        parent = next(name for name in workflow.node(way[-1]).parents if name in caught)
        if parent in way:
            around = [parent, *reversed(way[way.index(parent) :])]
            return Mistake(("nodes", around[0]), f"these nodes wait for each other: {' → '.join(around)}")
        way.append(parent)


def _ancestors(workflow: Workflow) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for node in workflow.nodes:
        parents = [name for name in node.parents if name in known]
        known[node.name] = set(parents).union(*(known[name] for name in parents))
    return known


def _unreachable(workflow: Workflow) -> Iterator[Mistake]:
    start = next((node.name for node in workflow.nodes if node.kind is Kind.START), None)
    reached = {start}
    for node in workflow.nodes if start else ():
        if reached.intersection(node.parents):
            reached.add(node.name)
        elif node.name != start:
            yield Mistake(("nodes", node.name), f"nothing leads from {start!r} to it", "Name it in the next of a node.")


def _node_mistakes(node: Node, workflow: Workflow) -> Iterator[Mistake]:
    at: Path = ("nodes", node.name)
    for name in node.parents:
        if name not in workflow.names:
            yield Mistake((*at, "depends_on"), f"there is no node {name!r}", nearest(name, workflow.names))
    if node.kind is Kind.CONDITIONAL:
        yield from _branch_mistakes(node, at)
    if node.kind is Kind.FAN_IN:
        sources = [name for name in node.parents if name in workflow.names]
        if sum(workflow.node(name).kind is Kind.FAN_OUT for name in sources) != 1:
            yield Mistake(at, "a fan_in needs the one fan_out it collects right before it")
    if node.kind is Kind.END and any(node.name in other.parents for other in workflow.nodes):
        yield Mistake(at, "nothing can come after an end")
    yield from (Mistake(at, message) for message in _stage_mistakes(node, workflow))
    limits = (node.timeout, node.queue_timeout, node.heartbeat_timeout, node.total_timeout)
    if any(limit is not None and limit <= timedelta(0) for limit in limits):
        yield Mistake(at, "its timeouts must be positive")
    if node.retry and node.retry.max_attempts is not None and node.retry.max_attempts < 1:
        yield Mistake(at, "retry.max_attempts must be at least 1")


def _stage_mistakes(node: Node, workflow: Workflow) -> Iterator[str]:
    if node.spread is Spread.FIXED and (node.count is None or node.count < 0) and not node.planned:
        yield "fixed parallelism needs a count of 0 or more"
    if node.spread is Spread.DYNAMIC and node.count_param is None and not node.planned:
        yield "dynamic parallelism needs a planner or count_param"
    if node.spread is Spread.FAN_OUT and not node.planned:
        yield "fan_out needs a planner (create_tasks_for_stage)"
    if node.spread in (Spread.FAN_OUT, Spread.FAN_IN, Spread.MATCH_PREVIOUS) and len(node.after) != 1:
        yield f"{node.spread} needs one stage before it"
    if node.lineage and len(node.after) != 1:
        yield "uses_lineage needs one stage before it"
    if node.count_param and workflow.inputs is not None and node.count_param not in workflow.inputs:
        yield f"count_param names {node.count_param!r}, which is not an input"
    if node.max_running is not None and node.max_running < 1:
        yield "max_parallel_tasks must be at least 1"


def _branch_mistakes(node: Node, at: Path) -> Iterator[Mistake]:
    defaults = [number for number, branch in enumerate(node.branches) if branch.is_default]
    if not defaults:
        yield Mistake((*at, "branches"), "a conditional needs a default branch", "End with {default: true, next: …}.")
    elif defaults != [len(node.branches) - 1]:
        yield Mistake((*at, "branches", defaults[0]), "the default branch must be the last, and the only one")


class _Scope:
    """What expressions of one place may name."""

    def __init__(self, workflow: Workflow, ancestors: set[str] | None, *, has_item: bool) -> None:
        self.workflow = workflow
        self.ancestors = ancestors
        self.has_item = has_item

    def type_of(self, reference: Reference) -> TypeName | None:
        """The type of what a reference names; None: nothing."""
        match reference.root:
            case "inputs":
                return self._type_of_input(reference)
            case "nodes":
                name = str(reference.path[0])
                known = self.workflow.names if self.ancestors is None else self.ancestors
                return "any" if name in known else None
            case "index":
                return "integer" if self.has_item else None
            case "item":
                return "any" if self.has_item else None
            case _:
                return "string"

    def hint(self, reference: Reference) -> str:
        """What may have been meant, or why it can't be named here."""
        if reference.root in ("item", "index"):
            return "They are known in the task of a fan_out only."
        name = str(reference.path[0])
        if reference.root == "inputs":
            return nearest(name, list(self.workflow.inputs or ()))
        if name in self.workflow.names:
            return f"{name} does not run before this in every case: name it in depends_on, or in a next."
        return nearest(name, self.workflow.names)

    def _type_of_input(self, reference: Reference) -> TypeName | None:
        if self.workflow.inputs is None:
            return "any"
        declared = self.workflow.inputs.get(str(reference.path[0]))
        if declared is None:
            return None
        is_there = declared.required or declared.default is not None
        return declared.type if is_there and len(reference.path) == 1 else "any"


def _expression_mistakes(node: Node, workflow: Workflow, ancestors: set[str] | None) -> Iterator[Mistake]:
    at: Path = ("nodes", node.name)
    plain = _Scope(workflow, ancestors, has_item=False)
    item = _Scope(workflow, ancestors, has_item=node.kind is Kind.FAN_OUT)
    params: Path = (*at, "task", "params") if node.kind is Kind.FAN_OUT else (*at, "params")
    for value, path, scope in ((node.params, params, item), (node.output, (*at, "output"), plain)):
        if value is not None:
            yield from _template_mistakes(value, path, scope)
    if node.when is not None:
        yield from _condition_mistakes(node.when, (*at, "when"), plain)
    if node.kind is Kind.FAN_OUT:
        yield from _source_mistakes(node.source, (*at, "source"), plain)
    if node.kind is Kind.CONDITIONAL:
        yield from _choice_mistakes(node, at, plain)


def _choice_mistakes(node: Node, at: Path, scope: _Scope) -> Iterator[Mistake]:
    subject: TypeName = "any"
    if node.subject is not None:
        mistakes = list(_template_mistakes(node.subject, (*at, "condition_field"), scope))
        yield from mistakes
        subject = "any" if mistakes else check(read_template(node.subject), scope.type_of)
    for number, branch in enumerate(node.branches):
        if not branch.is_default:
            yield from _branch_condition_mistakes(branch, (*at, "branches", number, "condition"), scope, node, subject)


def _branch_condition_mistakes(
    branch: Branch, path: Path, scope: _Scope, node: Node, subject: TypeName
) -> Iterator[Mistake]:
    has_subject = node.subject is not None
    yield from _condition_mistakes(branch.condition, path, scope, has_subject=has_subject, subject=subject)


def _template_mistakes(value: Json, path: Path, scope: _Scope) -> Iterator[Mistake]:
    mistakes = find_mistakes(value) or check_all(read_template(value), scope.type_of, hint=scope.hint)
    yield from (_located(mistake, path) for mistake in mistakes)


def _condition_mistakes(
    given: Json, path: Path, scope: _Scope, *, has_subject: bool = False, subject: TypeName = "any"
) -> Iterator[Mistake]:
    try:
        condition: Condition = parse_condition(given, has_subject)
    except ExpressionError as error:
        yield _located(error, path)
        return
    yield from (
        _located(error, path) for error in check_all(condition, scope.type_of, subject=subject, hint=scope.hint)
    )


def _source_mistakes(given: Json, path: Path, scope: _Scope) -> Iterator[Mistake]:
    if mistakes := list(_template_mistakes(given, path, scope)):
        yield from mistakes
        return
    template: Template = read_template(given)
    kind = check(template, scope.type_of)
    if kind not in ("array", "any"):
        yield Mistake(path, f"the source of a fan_out is an array, not {_article(kind)}")


def _located(error: ExpressionError, path: Path) -> Mistake:
    return Mistake((*path, *error.where), error.message, error.hint, error.offset)


def _handler_mistakes(node: Node, handlers: Mapping[str, Handler]) -> Iterator[Mistake]:
    at: Path = ("nodes", node.name, "task") if node.kind is Kind.FAN_OUT else ("nodes", node.name)
    found = handlers.get(node.handler)
    if found is None:
        hint = nearest(node.handler, sorted(handlers)) or "List them with `anabranch handlers`."
        yield Mistake((*at, "handler"), f"no plugin brings the handler {node.handler!r}", hint)
        return
    if node.heartbeat_timeout and found.runs not in (Runs.IN_CHILD, Runs.HEAVILY):
        message = "only handlers in children can have a heartbeat timeout"
        yield Mistake((*at, "heartbeat_timeout_seconds"), message)
    if found.model is not None and node.params is not None:
        yield from _parameter_mistakes(node.params, found, (*at, "params"))


def _parameter_mistakes(params: Mapping[str, Json], handler: Handler, at: Path) -> Iterator[Mistake]:
    if handler.model is None:
        return
    fields = {field.alias or name: field for name, field in handler.model.model_fields.items()}
    if handler.model.model_config.get("extra") != "allow":
        for name in params:
            if name not in fields:
                hint = nearest(name, list(fields)) or f"It takes {', '.join(fields) or 'nothing'}."
                yield Mistake((*at, name), f"{handler.name} takes no parameter {name!r}", hint)
    for name, field in fields.items():
        if field.is_required() and name not in params:
            yield Mistake(at, f"{handler.name} needs the parameter {name!r}")


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"
