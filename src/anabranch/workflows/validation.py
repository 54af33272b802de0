"""Find every mistake of a workflow before any job runs it (G4)."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from anabranch.canonical import Json
from anabranch.errors import DefinitionError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import ExpressionError, read_template
from anabranch.workflows.expressions.templates import Fixed
from anabranch.workflows.mistakes import MAX_MISTAKES, Mistake, Path, guess, nearest, quote, said_by_model
from anabranch.workflows.nodes import ConditionalNode, EndNode, FanOutNode, GateNode, Kind, Node, Spread, StageNode
from anabranch.workflows.rules import find_number_mistakes
from anabranch.workflows.schedules.schedule import find_schedule_mistakes
from anabranch.workflows.scope import Before, Scope, find_expression_mistakes, find_template_mistakes
from anabranch.workflows.values import ID, ID_HINT
from anabranch.workflows.work import Handler, HandlerWork, Runs

__all__ = ["find_handler_mistakes", "find_model_mistakes", "find_workflow_mistakes", "in_order", "require_sound"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
NAME_HINT = "Begin with a letter or _, go on with letters, digits and _; at most 63."
_MAX_SHOWN_NODES = 8  # of a cycle

N = TypeVar("N", bound=Node)


def require_sound(workflow: Workflow) -> Workflow:
    """The workflow, or DefinitionError with every mistake in it."""
    if found := find_workflow_mistakes(workflow):
        said = "; ".join(f"{'.'.join(map(str, m.path[1:])) + ': ' if m.path[1:] else ''}{m.message}" for m in found)
        raise DefinitionError("workflow.invalid", f"workflow {workflow.id!r}: {said}")
    return workflow


def find_workflow_mistakes(workflow: Workflow, *, is_whole: bool = True) -> list[Mistake]:
    """Every mistake that shows without knowing the handlers, up to a hundred.

    Where not every edge could be read (`is_whole` is false), what may only follow from that is no mistake.
    """
    return list(islice(_workflow_mistakes(workflow, is_whole), MAX_MISTAKES))


def find_handler_mistakes(workflow: Workflow, handlers: Mapping[str, Handler]) -> list[Mistake]:
    """Every mistake in how a workflow uses handlers, up to a hundred: unknown ones, and parameters they don't take."""
    found = (mistake for node in workflow.nodes for mistake in _handler_mistakes(node, handlers))
    return list(islice(found, MAX_MISTAKES))


def in_order(nodes: Sequence[N]) -> tuple[list[N], list[N]]:
    """The nodes so that each comes after those it waits for, else as written; and those in or behind a cycle."""
    known = {node.name for node in nodes}
    waits = {node.name: {name for name in node.parents if name in known} for node in nodes}
    children: dict[str, list[int]] = {}
    for number, node in enumerate(nodes):
        for name in waits[node.name]:
            children.setdefault(name, []).append(number)
    ready = [number for number, node in enumerate(nodes) if not waits[node.name]]
    ordered: dict[int, N] = {}
    while ready:
        number = heappop(ready)
        ordered[number] = nodes[number]
        for child in children.pop(nodes[number].name, ()):
            waits[nodes[child].name].discard(nodes[number].name)
            if not waits[nodes[child].name]:
                heappush(ready, child)
    return list(ordered.values()), [node for number, node in enumerate(nodes) if number not in ordered]


def _workflow_mistakes(workflow: Workflow, is_whole: bool) -> Iterator[Mistake]:
    yield from _naming(workflow, is_whole)
    ordered, caught = in_order(workflow.nodes)
    yield from map(_cycle_mistake, _cycles(caught))
    is_clear = is_whole and not caught
    unreachable = list(_unreachable(workflow)) if is_clear else []
    yield from unreachable
    before = Before(ordered) if is_clear and not unreachable else None
    known = set(workflow.names)
    ended = {node.name for node in workflow.nodes if node.kind is Kind.END}
    for node in workflow.nodes:
        yield from _edge_mistakes(node, workflow, known, ended)
        yield from _node_mistakes(node, workflow, is_whole)
        if node.kind is Kind.FAN_IN and is_whole:
            yield from _fan_in_mistakes(node, workflow, known)
        yield from find_expression_mistakes(node, workflow, before)
    if workflow.schedule is not None:
        yield from find_schedule_mistakes(workflow.schedule, workflow.inputs)
    if workflow.output is not None:
        yield from find_template_mistakes(workflow.output, ("output",), Scope(workflow))
        yield from _reserved(workflow.output, ("output",))


def _reserved(output: Mapping[str, Json], at: Path) -> Iterator[Mistake]:
    for key in output:
        if key.startswith("anabranch:"):
            yield Mistake((*at, key), "keys that begin with anabranch: are the engine's own", "Choose another name.")


def _naming(workflow: Workflow, is_whole: bool) -> Iterator[Mistake]:
    names = Counter(node.name for node in workflow.nodes)
    if not names and is_whole:
        yield Mistake(("nodes",), "there are no nodes", "Write at least one.")
    if names and is_whole and all(node.cleanup for node in workflow.nodes):
        yield Mistake(("nodes",), "all nodes have finally: there is nothing to clean up after", "Write one without.")
    if not ID.fullmatch(workflow.id):
        yield Mistake(("workflow_id",), f"{quote(workflow.id)} can't be a workflow's id", ID_HINT, of_value=True)
    for name, times in names.items():
        if times > 1:
            yield Mistake(("nodes", name), f"duplicate name {quote(name)}")
        if not NAME.fullmatch(name):
            yield Mistake(("nodes", name), f"{quote(name)} can't be a node's name", NAME_HINT)
    for name in workflow.inputs or ():
        if not NAME.fullmatch(name):
            yield Mistake(("inputs", name), f"{quote(name)} can't be an input's name", NAME_HINT)
    starts = [node.name for node in workflow.nodes if node.kind is Kind.START]
    for name in starts[1:]:
        hint = "Keep one, and name in its next all that begins the work."
        yield Mistake(("nodes", name), f"there is a start already: {quote(starts[0])}", hint)


def _cycles(caught: Sequence[Node]) -> Iterator[list[str]]:
    """Cycles among nodes, each in run order."""
    place = {node.name: number for number, node in enumerate(caught)}
    seen: set[str] = set()
    for node in caught:
        way: dict[str, int] = {}
        name = node.name
        while name not in seen:
            seen.add(name)
            way[name] = len(way)
            name = next(parent for parent in caught[place[name]].parents if parent in place)
        if name in way:
            around = list(way)[way[name] :][::-1]
            first = around.index(min(around, key=place.__getitem__))
            yield around[first:] + around[:first]


def _cycle_mistake(around: list[str]) -> Mistake:
    at: Path = ("nodes", around[0])
    if len(around) == 1:
        return Mistake(at, f"{quote(around[0])} waits for itself", "Remove it from its own next or depends_on.")
    more = len(around) - _MAX_SHOWN_NODES
    shown = around if more <= 0 else [*around[: _MAX_SHOWN_NODES - 1], f"({more:,} more)", around[-1]]
    way = " → ".join([*shown, around[0]])
    return Mistake(at, f"these nodes wait for each other: {way}", "Remove one of these steps.")


def _unreachable(workflow: Workflow) -> Iterator[Mistake]:
    """What a start does not lead to; of a whole chain, where it begins."""
    starts = [node.name for node in workflow.nodes if node.kind is Kind.START]
    waited_for = {name for node in workflow.nodes for name in node.parents}
    for name in starts:
        if name not in waited_for and len(workflow.nodes) > len(starts):
            yield Mistake(("nodes", name), f"{quote(name)} leads nowhere", "Name in its next what begins the work.")
    if waited_for.isdisjoint(starts):
        starts = []
    for node in workflow.nodes:
        if node.parents or node.kind is Kind.START:
            continue
        if starts:
            hint = "Name it in the next of another node."
            yield Mistake(("nodes", node.name), f"nothing leads from {quote(starts[0])} to {quote(node.name)}", hint)
        elif node.kind is Kind.END:
            hint = "Name it in the next of the last node, or leave it out."
            yield Mistake(("nodes", node.name), f"nothing leads to {quote(node.name)}", hint)


def _edge_mistakes(node: Node, workflow: Workflow, known: set[str], ended: set[str]) -> Iterator[Mistake]:
    at: Path = ("nodes", node.name)
    for name in node.parents:
        if name not in known:
            yield Mistake((*at, "depends_on"), f"there is no node {quote(name)}", nearest(name, workflow.names))
        if name in ended and name != node.name and not node.cleanup:
            yield Mistake(at, f"nothing can come after an end, and {quote(name)} is one")
        if name in known and not _leads_to(workflow.node(name), node):
            hint = "Name this node in the next of a branch."
            yield Mistake((*at, "depends_on"), f"{quote(name)} is a conditional, and no branch of it leads here", hint)
    if node.kind is Kind.START and node.parents:
        yield Mistake(at, "nothing can come before a start")


def _leads_to(parent: Node, child: Node) -> bool:
    return (
        not isinstance(parent, ConditionalNode)
        or child.cleanup
        or any(child.name in branch.next for branch in parent.branches)
    )


def _node_mistakes(node: Node, workflow: Workflow, is_whole: bool) -> Iterator[Mistake]:
    at: Path = ("nodes", node.name)
    match node:
        case ConditionalNode():
            yield from _branch_mistakes(node, at, is_whole)
        case EndNode():
            yield from _reserved(node.output or {}, (*at, "output"))
        case GateNode():
            for name in node.answer or ():
                if not NAME.fullmatch(name):
                    yield Mistake((*at, "answer", name), f"{quote(name)} can't be a field's name", NAME_HINT)
        case StageNode():
            yield from (Mistake(at, message) for message in _stage_mistakes(node, workflow))
        case _:
            pass
    yield from (Mistake(at, message) for message in find_number_mistakes(node))


def _fan_in_mistakes(node: Node, workflow: Workflow, known: set[str]) -> Iterator[Mistake]:
    found = [name for name in dict.fromkeys(node.parents) if name in known and workflow.node(name).kind.has_tasks]
    early = [name for name in found if name in node.after_any and workflow.node(name).kind is Kind.FAN_OUT]
    if early:
        message = f"a fan_in can't begin before its fan_out {quote(early[0])} ends"
        yield Mistake(("nodes", node.name, "depends_on"), message, "Name it in all_of, not in any_of.")
    elif not any(name in node.after for name in found):
        hint = "Name it in the next of a fan_out or a task; nodes that only join need no type."
        yield Mistake(("nodes", node.name), "a fan_in collects the nodes right before it, and none has results", hint)


def _stage_mistakes(node: StageNode, workflow: Workflow) -> Iterator[str]:
    if node.spread is Spread.FIXED and (node.count is None or node.count < 0) and not node.planned:
        yield "fixed parallelism needs a count of 0 or more"
    if node.spread is Spread.DYNAMIC and node.count_param is None and not node.planned:
        yield "dynamic parallelism needs a planner or count_param"
    if node.spread is Spread.FAN_OUT and not node.planned:
        yield "fan_out needs a planner (create_tasks_for_stage)"
    if node.spread in (Spread.FAN_OUT, Spread.MATCH_PREVIOUS) and len(node.after) != 1:
        yield f"{node.spread} needs one stage before it"
    if node.spread is Spread.FAN_IN and not node.after:
        yield "fan_in needs a stage before it"
    if node.lineage and len(node.after) != 1:
        yield "uses_lineage needs one stage before it"
    if node.count_param and workflow.inputs is not None and node.count_param not in workflow.inputs:
        yield f"count_param names {node.count_param!r}, which is not an input"


def _branch_mistakes(node: ConditionalNode, at: Path, is_whole: bool) -> Iterator[Mistake]:
    defaults = [number for number, branch in enumerate(node.branches) if branch.is_default]
    if not defaults and (node.branches or is_whole):
        hint = "End with one: {default: true, next: …}."
        yield Mistake((*at, "branches"), "a conditional needs a default branch", hint)
    for number in defaults[1:]:
        yield Mistake((*at, "branches", number), "there is a default branch already", "Keep one, as the last branch.")
    if len(defaults) == 1 and defaults[0] != len(node.branches) - 1:
        hint = "Move it to the end: no branch behind it would ever be taken."
        yield Mistake((*at, "branches", defaults[0]), "the default branch must be the last", hint)


def _handler_mistakes(node: Node, handlers: Mapping[str, Handler]) -> Iterator[Mistake]:
    work = node.work
    if not isinstance(work, HandlerWork):
        return
    at: Path = ("nodes", node.name, "task") if isinstance(node, FanOutNode) else ("nodes", node.name)
    found = handlers.get(work.handler)
    if found is None:
        hint = nearest(work.handler, sorted(handlers)) or "List them with `anabranch handlers`."
        yield Mistake((*at, "handler"), f"no plugin brings the handler {quote(work.handler)}", hint, of_value=True)
        return
    if work.heartbeat_timeout and found.runs not in (Runs.IN_CHILD, Runs.HEAVILY):
        message = f"{found.name} runs {found.runs}, and only handlers in children can have a heartbeat timeout"
        yield Mistake((*at, "heartbeat_timeout_seconds"), message, "Leave it out.")
    if found.model is not None and work.params is not None:
        there = (*at, "params")
        yield from find_model_mistakes(work.params, found.model, found.name, "parameter", there, there)


def find_model_mistakes(
    given: Mapping[str, Json], model: type[BaseModel], owner: str, noun: str, at: Path, lacking: Path
) -> Iterator[Mistake]:
    """What a pydantic model doesn't take of what it is given, and what it lacks."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if model.model_config.get("extra") != "allow":
        for name in given:
            if name not in fields:
                hint = nearest(name, list(fields)) or f"It takes {', '.join(fields) or 'nothing'}."
                yield Mistake((*at, name), f"{owner} takes no {noun} {quote(name)}", hint)
    for name, field in fields.items():
        if (
            field.is_required()
            and name not in given
            and guess(name, [key for key in given if key not in fields]) is None
        ):
            yield Mistake(lacking, f"{owner} needs the {noun} {quote(name)}", "Add it to params.")
    for name, message in _value_mistakes({key: value for key, value in given.items() if key in fields}, model):
        yield Mistake((*at, name), f"the {noun} {quote(name)} of {owner}: {message}", of_value=True)


def _value_mistakes(given: Mapping[str, Json], model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """What a model says of the values that are known before any job, by name; of the others it can say nothing."""
    known = {key: value for key, value in given.items() if _is_fixed(value)}
    try:
        model.model_validate(known)
    except ValidationError as error:
        for found in error.errors(include_url=False, include_context=False):
            if found["type"] != "missing" and found["loc"][:1] and found["loc"][0] in known:
                yield str(found["loc"][0]), said_by_model(found)
    except Exception:  # noqa: BLE001, S110  # a validator of the model that needs what is not known yet
        pass


def _is_fixed(value: Json) -> bool:
    try:
        return isinstance(read_template(value).part, Fixed)
    except ExpressionError:
        return False
