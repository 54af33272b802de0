"""Reads a workflow from YAML. All mistakes of a file are reported at once, with line and column (G4).

A document is the content of a file: keys and plain values. Functions are traced into documents, too.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from anabranch.canonical import Json
from anabranch.errors import DefinitionError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Edges
from anabranch.workflows.inputs import Input
from anabranch.workflows.mistakes import MAX_MISTAKES, Mistake, Path, guess, nearest, quote, show
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import NAME, NODES, AnyNode, ConditionalNode, FanInNode, FanOutNode, GateNode, Kind, Node
from anabranch.workflows.reading import Read, read
from anabranch.workflows.rules import Model, declared_keys
from anabranch.workflows.stages import Declaration
from anabranch.workflows.validation import find_handler_mistakes, find_workflow_mistakes, in_order
from anabranch.workflows.work import Handler, HandlerWork, Work, WorkflowWork
from anabranch.workflows.yaml.tree import FileMistake, Tree, TreeError, read_tree

__all__ = ["FileMistake", "Loaded", "Place", "load_document", "load_yaml"]

UNNAMED = "unnamed"
MAX_KEPT_BYTES = 10_000
EDGES = ("type", "next", "depends_on", "branches")  # the keys that say which node comes after which

M = TypeVar("M", bound=Model)
Place = Callable[[Mistake], FileMistake]  # finds where a mistake is written


@dataclass(frozen=True)
class Loaded:
    """What a file holds: a workflow, or the mistakes that keep it from being one.

    The draft is the workflow as far as it could be read.
    """

    workflow: Workflow | None
    mistakes: tuple[FileMistake, ...]
    draft: Workflow | None = None
    place: Place | None = field(default=None, repr=False)

    def require(self) -> Workflow:
        """The workflow, or DefinitionError with every mistake."""
        if self.workflow is None or self.mistakes:
            raise DefinitionError("workflow.invalid", "\n".join(map(str, self.mistakes)))
        return self.workflow

    def among(self, others: Mapping[str, Declaration], broken: Mapping[str, str] | None = None) -> "Loaded":
        """The same, checked with the workflows that it may run, and those that are broken."""
        if self.draft is None:
            return self
        known = {name: place for name, place in (broken or {}).items() if name != self.draft.id}
        nested = nest({**others, self.draft.id: Declaration(self.draft)}, known)
        return self.with_mistakes(nested.refused.get(self.draft.id, ()))

    def with_mistakes(self, found: Sequence[Mistake]) -> "Loaded":
        """The same with more mistakes, at their places."""
        if not found or self.place is None:
            return self
        placed = {*self.mistakes, *map(self.place, found)}
        return replace(self, workflow=None, mistakes=_in_order(placed))


def load_yaml(text: str | bytes, file: str, handlers: Mapping[str, Handler] | None = None) -> Loaded:
    """Read a workflow from YAML; with handlers, it is checked against them, too. It never raises."""
    try:
        tree = (_read_tree_once if len(text) <= MAX_KEPT_BYTES else read_tree)(text, file)
    except TreeError as error:
        return _load_rest(error, handlers)
    return load_document(tree.value, partial(_place, tree), handlers)


@lru_cache(maxsize=64)
def _read_tree_once(text: str | bytes, file: str) -> Tree:
    """The tree of a file; those of plugins are read again and again, and rarely change. Mistakes are not kept."""
    return read_tree(text, file)


def _load_rest(error: TreeError, handlers: Mapping[str, Handler] | None) -> Loaded:
    """What else is wrong with a file that has mistakes in its YAML; on their lines, nothing more is known."""
    if error.tree is None:
        return Loaded(None, error.mistakes)
    rest = load_document(error.tree.value, partial(_place, error.tree), handlers, is_whole=False)
    lines = {mistake.line for mistake in error.mistakes}
    others = [mistake for mistake in rest.mistakes if mistake.line not in lines]
    return Loaded(None, _in_order([*error.mistakes, *others]))


def load_document(
    document: Mapping[str, Json],
    place: Place,
    handlers: Mapping[str, Handler] | None = None,
    *,
    is_whole: bool = True,
) -> Loaded:
    """The workflow that a document says; with handlers, it is checked against them too. It never raises.

    Of one that is not whole, nothing is said that what it lacks may disprove.
    """
    draft = _Draft(document, is_whole=is_whole)
    workflow = draft.read()
    found = draft.mistakes[:MAX_MISTAKES] + find_workflow_mistakes(workflow, is_whole=draft.is_whole)
    if is_whole:
        found = found or find_workflow_mistakes(workflow)  # checks that were left out because of other mistakes
    if handlers is not None:
        found += find_handler_mistakes(workflow, handlers)
    mistakes = _in_order({place(mistake): None for mistake in found})
    return Loaded(None if mistakes else workflow, mistakes, workflow, place)


def _in_order(mistakes: Iterable[FileMistake]) -> tuple[FileMistake, ...]:
    """The first mistakes, in the order of the file."""
    return tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))[:MAX_MISTAKES]


def _place(tree: Tree, mistake: Mistake) -> FileMistake:
    if mistake.offset is not None:
        at = tree.position_in(mistake.path, mistake.offset)
    else:
        is_key = bool(mistake.path) and isinstance(mistake.path[-1], str) and not mistake.of_value
        at = tree.position(mistake.path, of_key=is_key)
    return FileMistake(tree.name, at.line, at.column, mistake.message, mistake.hint)


class _Draft:
    """Reads a document; `is_whole` says that every node and edge was understood."""

    def __init__(self, given: Mapping[str, Json], *, is_whole: bool = True) -> None:
        self.given = given
        self.mistakes: list[Mistake] = []
        self.is_whole = is_whole
        self._leads: list[tuple[str, Mapping[str, Path]]] = []
        self._waits: list[tuple[str, Mapping[str, Path], bool]] = []
        self._all: dict[str, list[str]] = {}
        self._any: dict[str, list[str]] = {}

    def read(self) -> Workflow:
        """The workflow, as far as it can be read."""
        own = {key: value for key, value in self.given.items() if key not in ("inputs", "nodes")}
        found = self._take(read(Workflow, own, "a workflow", beside=("inputs", "nodes")))
        named = {**{key: value for key, value in own.items() if key not in found.refused}, "workflow_id": UNNAMED}
        top = found.value or read(Workflow, named, "a workflow").value or Workflow(UNNAMED)
        nodes = {name: self._node(name, value) for name, value in self._nodes(found.refused).items()}
        self._connect(nodes)
        return replace(
            top,
            inputs=self._inputs(found.refused),
            output=top.output if nodes else None,
            nodes=self._linked(nodes),
        )

    def _take(self, found: Read[M]) -> Read[M]:
        self.mistakes += found.mistakes
        self.is_whole = self.is_whole and found.refused.isdisjoint(EDGES)
        return found

    def _note(self, path: Path, message: str, hint: str = "", *, of_value: bool = True) -> None:
        self.mistakes.append(Mistake(path, message, hint, of_value=of_value))

    def _nodes(self, refused: Collection[str]) -> dict[str, Json]:
        given = self.given.get("nodes")
        if given is None and "nodes" not in refused:
            self._note(("nodes",), "a workflow needs 'nodes'", of_value=False)
        elif given == {}:
            self._note(("nodes",), "there are no nodes", "Write at least one.")
        elif given is not None and not isinstance(given, dict):
            self._note(("nodes",), f"nodes is a mapping, not {show(given)}", "Write name: {handler: echo}.")
        if isinstance(given, dict) and given:
            return given
        self.is_whole = False
        return {}

    def _inputs(self, refused: Collection[str]) -> dict[str, Input] | None:
        given = self.given.get("inputs")
        if isinstance(given, dict):
            return {name: self._input(name, value) for name, value in given.items()}
        if given is not None:
            self._note(("inputs",), f"inputs is a mapping, not {show(given)}", "Write name: {type: string}.")
        return {} if given is None and "inputs" not in refused else None

    def _input(self, name: str, value: Json) -> Input:
        if value is not None and not isinstance(value, dict):
            self._note(("inputs", name), f"input {quote(name)} is not a mapping", "Write {type: string}.")
            return Input()
        return self._take(read(Input, value or {}, "an input", ("inputs", name))).value or Input()

    def _node(self, name: str, given: Json) -> AnyNode:
        """A node; a gate in its place if it can't be read."""
        path: Path = ("nodes", name)
        given = {} if given is None and name in ("START", "END") else given
        if len(self.mistakes) >= MAX_MISTAKES:
            return self._unread(name)
        if not isinstance(given, dict):
            self._note(path, f"node {quote(name)} is not a mapping", "Write {handler: echo}.")
            return self._unread(name)
        kind = self._kind(name, given)
        model = NODES[kind or Kind.TASK]
        self._note_edges(name, {key: value for key, value in given.items() if key in model.edges})
        if kind is None:
            return self._unread(name)
        own = {key: value for key, value in given.items() if key not in ("type", *model.edges)}
        is_task_read = model is not FanOutNode or self._read_task(own, path)
        what, beside = f"a node of type {kind}", ("type", *model.edges)
        found = self._take(
            read(model, {**own, NAME: name}, what, path, beside=beside, elsewhere=partial(_belongs, kind))
        )
        node = _without_params(found)
        if node is None or not is_task_read or "condition_field" in found.refused:
            return self._unread(name)
        if isinstance(node, ConditionalNode):
            self._note_branches(node, given)
        return node  # type: ignore[return-value]  # one of the union

    def _unread(self, name: str) -> GateNode:
        self.is_whole = False
        return GateNode(name=name)

    def _kind(self, name: str, given: Mapping[str, Json]) -> Kind | None:
        """The type of a node; None if it is unknown, then the node is not checked further."""
        kind = given.get("type")
        if kind is None and (name in ("START", "END") or (name.upper() in ("START", "END") and "handler" not in given)):
            if name != name.upper():
                hint = f"Write it in capitals, {name.upper()}, or give it its type."
                self._note(("nodes", name), f"{quote(name)} is a task without a handler", hint, of_value=False)
            return Kind(name.lower())
        if kind is None:
            key, owner = _owner(given)
            if key and not any(guess(other, ("type",)) for other in given):
                self._note(("nodes", name), f"a node with {key!r} needs a type", f"Add type: {owner}.", of_value=False)
            return owner
        close = guess(kind, list(Kind)) if isinstance(kind, str) else None
        if kind != close:
            hint = f"Did you mean {str(close)!r}?" if close else ""
            self._note(("nodes", name, "type"), f"type is one of {', '.join(Kind)}, not {show(kind)}", hint)
        return Kind(close) if close else None

    def _read_task(self, own: dict[str, Any], path: Path) -> bool:  # a node of the file
        """Replace the task of a fan_out by its model; one that can't be read gets a placeholder."""
        task = own.get("task")
        if not isinstance(task, dict):
            return True
        model = WorkflowWork if "workflow" in task else HandlerWork
        found = self._take(read(model, task, "the task of a fan_out", (*path, "task"), elsewhere=_beside_task))
        own["task"] = _without_params(found) or HandlerWork(handler="")
        return found.value is not None

    def _note_edges(self, name: str, given: Mapping[str, Json]) -> None:
        path: Path = ("nodes", name)
        found = self._take(read(Edges, given, "a node", path))
        if "next" not in found.refused:
            self._leads.append((name, _places(given.get("next"), (*path, "next"))))
        if "depends_on" in found.refused:
            return
        depends_on, at = given.get("depends_on"), (*path, "depends_on")
        both = depends_on if isinstance(depends_on, dict) else {"all_of": depends_on}
        for key in ("all_of", "any_of"):
            places = _places(both.get(key), (*at, key) if both is depends_on else at)
            self._waits.append((name, places, key == "any_of"))

    def _note_branches(self, node: ConditionalNode, given: Mapping[str, Any]) -> None:  # a node of the file
        self.is_whole = self.is_whole and any(branch.is_default for branch in node.branches)
        for number, branch in enumerate(given["branches"]):
            path: Path = ("nodes", node.name, "branches", number, "next")
            self._leads.append((node.name, _places(branch["next"], path)))

    def _connect(self, nodes: Mapping[str, Node]) -> None:
        """Collect the edges, from whichever end they are written; depends_on overrides next."""
        self._all, self._any = {name: [] for name in nodes}, {name: [] for name in nodes}
        for name, named, is_any in self._waits:
            for parent, path in named.items():
                if self._check_target(parent, path, nodes) and nodes[parent].kind is Kind.END and parent != name:
                    self._note(path, f"nothing can come after an end, and {quote(parent)} is one")
                elif parent in nodes and self._check_cleanup(nodes[parent], nodes[name], path, is_any=is_any):
                    (self._any if is_any else self._all)[name].append(parent)
        for name, named in self._leads:
            for child, path in named.items():
                if self._check_target(child, path, nodes) and not self._waits_for(child, name):
                    self._lead(nodes[name], nodes[child], path)

    def _waits_for(self, child: str, parent: str) -> bool:
        return parent in self._all[child] or parent in self._any[child]

    def _lead(self, parent: Node, child: Node, path: Path) -> None:
        if child.kind is Kind.START and child.name != parent.name:
            self._note(path, f"nothing can come before a start, and {quote(child.name)} is one")
        elif self._check_cleanup(parent, child, path):
            self._all[child.name].append(parent.name)

    def _check_target(self, name: str, path: Path, nodes: Mapping[str, Node]) -> bool:
        if name in nodes:
            return True
        self.is_whole = False
        if len(self.mistakes) < MAX_MISTAKES:
            hint = "Add END to the nodes, or leave this out." if name == "END" else nearest(name, list(nodes))
            self._note(path, f"there is no node {quote(name)}", hint)
        return False

    def _check_cleanup(self, parent: Node, child: Node, path: Path, *, is_any: bool = False) -> bool:
        """Whether an edge may stand: cleanup nodes come after all others, and among them say which comes first."""
        if child.cleanup and not parent.cleanup:
            hint = "Leave this out, and every edge between it and a node without finally."
            self._note(path, f"{quote(child.name)} runs after all other nodes by itself: it has finally", hint)
        elif parent.cleanup and not child.cleanup:
            hint = f"Give {child.name} finally: true, too, or leave this out."
            self._note(path, f"only cleanup nodes can come after {quote(parent.name)}, which has finally", hint)
        elif child.cleanup and is_any:
            self._note(path, "a cleanup node waits for all that it names", "Name them in all_of.")
        return child.cleanup == parent.cleanup and not (child.cleanup and is_any)

    def _linked(self, nodes: Mapping[str, AnyNode]) -> tuple[AnyNode, ...]:
        """The nodes with their edges, in order: it does not matter at which end an edge is written."""
        place = {name: number for number, name in enumerate(nodes)}
        nodes = {
            name: self._with_sources(node, nodes) if isinstance(node, FanInNode) else node
            for name, node in nodes.items()
        }
        linked = [
            replace(
                node,
                after=tuple(sorted(self._all[name], key=place.__getitem__)),
                after_any=tuple(sorted(self._any[name], key=place.__getitem__)),
            )
            for name, node in nodes.items()
        ]
        ordered, caught = in_order(_with_cleanup(linked))
        return (*ordered, *caught)

    def _with_sources(self, node: FanInNode, nodes: Mapping[str, AnyNode]) -> FanInNode:
        """A fan-in with the nodes that it collects, in the order of its depends_on, unless that is one fan-out."""
        sources = tuple(name for name in self._all[node.name] if nodes[name].kind.has_tasks)
        is_plain = [nodes[name].kind for name in sources] == [Kind.FAN_OUT]
        return node if is_plain else replace(node, sources=sources)


def _with_cleanup(nodes: Sequence[AnyNode]) -> list[AnyNode]:
    """The nodes, with those after which no other comes before every cleanup node."""
    passed = {name for node in nodes if not node.cleanup for name in node.parents}
    last = tuple(node.name for node in nodes if not node.cleanup and node.name not in passed)
    return [replace(node, after=(*last, *node.after)) if node.cleanup else node for node in nodes]


def _without_params(found: Read[M]) -> M | None:
    """The value that was read, without its parameters if those were refused."""
    value = found.value
    return replace(value, params=None) if isinstance(value, Work) and "params" in found.refused else value


def _places(value: Json, path: Path) -> dict[str, Path]:
    """The nodes that a key names, one or a list, with the path of each."""
    if isinstance(value, list):
        return {name: (*path, number) for number, name in enumerate(value) if isinstance(name, str)}
    return {value: path} if isinstance(value, str) else {}


def _keys(kind: Kind) -> tuple[str, ...]:
    return ("type", *NODES[kind].edges, *declared_keys(NODES[kind]))


def _owner(given: Mapping[str, Json]) -> tuple[str, Kind]:
    """The type of a node that doesn't name it: a task, or what has a key that tasks don't have, and that key."""
    keys = [] if "handler" in given else [key for key in given if key not in _keys(Kind.TASK)]
    return next(((key, kind) for key in keys for kind in Kind if key in _keys(kind)), ("", Kind.TASK))


def _inside(key: str) -> str:
    return "Keep the handler or the workflow." if key == "handler" else "The nodes of that workflow have their own."


def _beside_task(key: str) -> str:
    if key in _keys(Kind.FAN_OUT):
        return "It belongs beside task, not into it."
    return _inside(key) if key in declared_keys(HandlerWork) else ""


def _belongs(kind: Kind, key: str) -> str:
    """A hint where a key belongs that nodes of this type don't have."""
    in_task = key in declared_keys(HandlerWork) or key in declared_keys(WorkflowWork)
    if in_task and kind in (Kind.FAN_OUT, Kind.WORKFLOW):
        return "It belongs into its task." if kind is Kind.FAN_OUT else _inside(key)
    if key in ("next", "depends_on"):
        ends = {Kind.CONDITIONAL: "Each of its branches has its own.", Kind.END: "Nothing can come after an end."}
        return ends.get(kind, "Nothing can come before a start.")
    owners = [str(other) for other in Kind if key in _keys(other)]
    return f"Nodes of type {' and '.join(owners)} have it." if owners else ""
