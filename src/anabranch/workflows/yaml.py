"""A DAG written in YAML becomes a Workflow. Every mistake of a file is found at once, with its line and column (G4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.canonical import Json
from anabranch.errors import DefinitionError
from anabranch.workflows.definition import Branch, Kind, Node, Workflow
from anabranch.workflows.handlers import Handler
from anabranch.workflows.inputs import Input
from anabranch.workflows.mistakes import MAX_MISTAKES, Mistake, Path, guess, nearest, quote
from anabranch.workflows.nesting import nest
from anabranch.workflows.stages import Declaration
from anabranch.workflows.validation import ID, ID_HINT, find_handler_mistakes, find_workflow_mistakes, in_order
from anabranch.workflows.yaml_keys import (
    BRANCH_KEYS,
    DEPENDS_KEYS,
    NESTED,
    NODE_KEYS,
    RUNNING,
    WORKFLOW_KEYS,
    Notes,
    Reader,
)
from anabranch.workflows.yaml_tree import Tree, TreeError, read_tree

__all__ = ["FileMistake", "Loaded", "load_yaml"]

UNNAMED = "unnamed"
_INSIDE = "The nodes of that workflow have their own."
_OUTPUT_HINT = "Give each part a name: 'name: …'."


@dataclass(frozen=True)
class FileMistake:
    """A mistake at its place in a file."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """As compilers say it, in whole sentences."""
        said = " ".join(part if part[-1] in ".?!…" else f"{part}." for part in (self.message, self.hint) if part)
        return f"{self.file}:{self.line}:{self.column}: {said}"


@dataclass(frozen=True)
class Loaded:
    """What a file holds: a workflow, or the mistakes that keep it from being one.

    The draft is the workflow as far as it could be understood.
    """

    workflow: Workflow | None
    mistakes: tuple[FileMistake, ...]
    draft: Workflow | None = None
    tree: Tree | None = field(default=None, repr=False)

    def require(self) -> Workflow:
        """The workflow, or DefinitionError with every mistake."""
        if self.workflow is None or self.mistakes:
            raise DefinitionError("workflow.invalid", "\n".join(map(str, self.mistakes)))
        return self.workflow

    def among(self, others: Mapping[str, Declaration], broken: Mapping[str, str] | None = None) -> "Loaded":
        """The same, checked beside the workflows that it may run, and those that are known to be broken."""
        if self.draft is None:
            return self
        known = {name: place for name, place in (broken or {}).items() if name != self.draft.id}
        nested = nest({**others, self.draft.id: Declaration(self.draft)}, known)
        return self.with_mistakes(nested.refused.get(self.draft.id, ()))

    def with_mistakes(self, found: Sequence[Mistake]) -> "Loaded":
        """The same with more mistakes, at their places."""
        if not found or self.tree is None:
            return self
        placed = {*self.mistakes, *(_place(self.tree, mistake) for mistake in found)}
        return replace(self, workflow=None, mistakes=_in_order(placed))


def load_yaml(text: str | bytes, file: str, handlers: Mapping[str, Handler] | None = None) -> Loaded:
    """The workflow that a file spells; with handlers, it is checked against them too. It never raises."""
    try:
        tree = read_tree(text, file)
    except TreeError as error:
        return Loaded(None, tuple(FileMistake(file, m.line, m.column, m.message, m.hint) for m in error.mistakes))
    draft = _Draft(tree)
    workflow = draft.read()
    found = draft.notes.mistakes + find_workflow_mistakes(workflow, is_whole=draft.notes.is_whole)
    found = found or find_workflow_mistakes(workflow)  # what was spared for the sake of other mistakes
    if handlers is not None:
        found += find_handler_mistakes(workflow, handlers)
    mistakes = _in_order({_place(tree, mistake): None for mistake in found})
    return Loaded(None if mistakes else workflow, mistakes, workflow, tree)


def _in_order(mistakes: Iterable[FileMistake]) -> tuple[FileMistake, ...]:
    """The first of them, as they stand in the file."""
    return tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))[:MAX_MISTAKES]


def _place(tree: Tree, mistake: Mistake) -> FileMistake:
    if mistake.offset is not None:
        at = tree.position_in(mistake.path, mistake.offset)
    else:
        is_key = bool(mistake.path) and isinstance(mistake.path[-1], str) and not mistake.of_value
        at = tree.position(mistake.path, of_key=is_key)
    return FileMistake(tree.name, at.line, at.column, mistake.message, mistake.hint)


class _Draft:
    """A file on its way to a workflow."""

    def __init__(self, tree: Tree) -> None:
        self.notes = Notes()
        self._top = Reader(tree.value, (), self.notes)
        self._all: dict[str, list[str]] = {}
        self._any: dict[str, list[str]] = {}
        self._leads: list[tuple[str, Mapping[str, Path]]] = []
        self._waits: list[tuple[str, Reader]] = []

    def read(self) -> Workflow:
        """The workflow, as far as it can be understood."""
        top = self._top
        top.allow(WORKFLOW_KEYS, "a workflow")
        top.require("workflow_id", "a workflow")
        nodes = {name: self._node(name, value) for name, value in self._nodes().items()}
        self._connect(nodes)
        return Workflow(
            id=top.word("workflow_id") or UNNAMED,
            name=top.text("name"),
            version=top.whole("version", 1) or 1,
            description=top.text("description"),
            priority=top.priority() or Workflow.priority,
            inputs=self._inputs(),
            output=top.mapping("output", _OUTPUT_HINT) if nodes else None,
            nodes=self._linked(nodes),
        )

    def _nodes(self) -> dict[str, Json]:
        given = self._top.mapping("nodes", "Give each node a name: 'name: {handler: …}'.")
        if not given:
            self.notes.is_whole = False
        if self._top.given.get("nodes") == {}:
            self._top.refuse("there are no nodes", "Write at least one.", "nodes")
        self._top.require("nodes", "a workflow")
        return given or {}

    def _inputs(self) -> dict[str, Input] | None:
        given = self._top.mapping("inputs", "Give each input a name: 'name: {type: string}'.")
        if given is None:
            is_plain = self._top.given.get("inputs") is None and not self._top.is_misspelt("inputs")
            return {} if is_plain else None
        return {name: self._input(name, value) for name, value in given.items()}

    def _input(self, name: str, value: Json) -> Input:
        if value is not None and not isinstance(value, dict):
            self._top.refuse(f"input {quote(name)} is not a mapping", "Write {type: string}.", "inputs", name)
            return Input()
        return Reader(value or {}, ("inputs", name), self.notes).input(name)

    def _node(self, name: str, value: Json) -> Node:
        if not isinstance(value, dict) and not (value is None and name in ("START", "END")):
            self.notes.is_whole = False
            self._top.refuse(f"node {quote(name)} is not a mapping", "Write {handler: …}.", "nodes", name)
            return Node(name)
        reader = Reader(value or {}, ("nodes", name), self.notes)
        kind = self._kind(reader, name)
        self._note_edges(name, reader, NODE_KEYS[kind or Kind.TASK])
        if kind is None:
            return Node(name)
        reader.allow(NODE_KEYS[kind], f"a node of type {kind}", lambda key: _belongs(key, kind))
        shared = Node(
            name,
            kind=kind,
            description=reader.text("description"),
            when=reader.given.get("when") if "when" in NODE_KEYS[kind] else None,
            on_failure=reader.on_failure() if "on_failure" in NODE_KEYS[kind] else Node.on_failure,
        )
        return self._filled(shared, reader)

    def _note_edges(self, name: str, reader: Reader, keys: Sequence[str]) -> None:
        if "next" in keys:
            self._leads.append((name, reader.names("next")))
        if "depends_on" in keys:
            self._waits.append((name, reader))

    def _filled(self, node: Node, reader: Reader) -> Node:
        """A node with what its type alone has."""
        match node.kind:
            case Kind.TASK:
                return self._running(node, reader, "a task")
            case Kind.FAN_OUT:
                return self._fan_out(node, reader)
            case Kind.FAN_IN:
                return replace(node, queue=reader.word("queue") or None, folding=reader.folding())
            case Kind.CONDITIONAL:
                return self._conditional(node, reader)
            case Kind.END:
                return replace(node, output=reader.mapping("output", _OUTPUT_HINT))
            case Kind.START:
                return node
            case Kind.GATE:
                return replace(node, timeout=reader.seconds("timeout_seconds"))
            case Kind.WAIT:
                return self._wait_node(node, reader)
            case Kind.WORKFLOW:
                return self._nested(node, reader, "a workflow node")

    def _kind(self, reader: Reader, name: str) -> Kind | None:
        """The type of a node; None: it can't be told, and nothing more is said of the node."""
        given = reader.given.get("type")
        if given is None and name in ("START", "END"):
            return Kind(name.lower())
        if given is None and (owner := _owner(reader.given)):
            if not any(guess(key, ("type",)) for key in reader.given):
                reader.note(f"a node with {owner[0]!r} needs a type", f"Add type: {owner[1]}.")
            return owner[1]
        is_known = given is None or (isinstance(given, str) and guess(given, list(Kind)) is not None)
        kind = reader.choice("type", Kind, Kind.TASK)
        if is_known:
            return kind
        self.notes.is_whole = False
        return None

    def _running(self, node: Node, reader: Reader, what: str) -> Node:
        """A node with what says how its tasks run."""
        capital = node.name.upper()
        hint = f"Write it in capitals, {capital}, or give it its type." if capital in ("START", "END") else ""
        if "workflow" not in reader.given:
            reader.require("handler", what, hint)
        params = reader.mapping("params", "Give each parameter its name.")
        is_plain = reader.given.get("params") is None and not reader.is_misspelt("params")
        return replace(
            node,
            handler=reader.word("handler"),
            queue=reader.word("queue") or None,
            params={} if is_plain else params,
            retry=reader.retry(),
            priority=reader.priority(),
            timeout=reader.seconds("timeout_seconds"),
            queue_timeout=reader.seconds("queue_timeout_seconds"),
            heartbeat_timeout=reader.seconds("heartbeat_timeout_seconds"),
            total_timeout=reader.seconds("total_timeout_seconds"),
            limit=reader.key("limit"),
        )

    def _nested(self, node: Node, reader: Reader, what: str) -> Node:
        """A node whose tasks are jobs of another workflow."""
        reader.require("workflow", what)
        params = reader.mapping("params", "Give each input its name.")
        is_plain = reader.given.get("params") is None and not reader.is_misspelt("params")
        return replace(
            node,
            workflow=self._workflow_id(reader),
            params={} if is_plain else params,
            retry=reader.retry(),
            priority=reader.priority(),
            limit=reader.key("limit"),
        )

    def _workflow_id(self, reader: Reader) -> str:
        name = reader.word("workflow")
        if not name or ID.fullmatch(name):
            return name
        if "{{" in name:
            hint = "Name one; a conditional can choose between nodes that run different ones."
            reader.refuse("which workflow runs must be known when this one is loaded", hint, "workflow")
        else:
            reader.refuse(f"{quote(name)} can't be a workflow's id", ID_HINT, "workflow")
        return ""

    def _wait_node(self, node: Node, reader: Reader) -> Node:
        given = [key for key in ("duration_seconds", "until") if reader.given.get(key) is not None]
        if len(given) == 2:
            reader.note(
                "a wait has either duration_seconds or until", "Keep one.", max(given, key=list(reader.given).index)
            )
        elif not given and not reader.is_misspelt("duration_seconds") and not reader.is_misspelt("until"):
            reader.note("a wait has either duration_seconds or until", "Add one.")
        return replace(node, duration_seconds=reader.duration("duration_seconds"), until=reader.time("until"))

    def _fan_out(self, node: Node, reader: Reader) -> Node:
        reader.require("source", "a fan_out")
        reader.require("task", "a fan_out")
        source = reader.given.get("source")
        node = replace(
            node,
            source=[] if source is None else source,
            max_items=reader.whole("max_items", 1),
            max_running=reader.whole("concurrency", 1),
            batch_size=reader.whole("batch_size", 1),
            tolerate=reader.tolerance(),
        )
        task = reader.inner("task", "Write {handler: …}.")
        if task is None:
            return node
        if "workflow" in task.given:
            if "handler" in task.given:
                task.note("the task of a fan_out has a handler or runs a workflow", "Keep one.", "handler")
                task = Reader({key: value for key, value in task.given.items() if key in NESTED}, task.path, self.notes)
            task.allow(NESTED, "the task of a fan_out that runs a workflow", _beside_nested)
            return self._nested(node, task, "the task of a fan_out")
        task.allow(RUNNING, "the task of a fan_out", _beside_task)
        return self._running(node, task, "the task of a fan_out")

    def _conditional(self, node: Node, reader: Reader) -> Node:
        reader.require("branches", "a conditional")
        readers = reader.listed("branches", "a branch")
        branches = tuple(self._branch(node.name, branch, branch is readers[-1]) for branch in readers)
        if branches and not any(branch.is_default for branch in branches):
            self.notes.is_whole = False
        if reader.is_misspelt("condition_field"):
            branches = tuple(replace(branch, condition=True) for branch in branches)
        return replace(node, subject=reader.given.get("condition_field"), branches=branches)

    def _branch(self, parent: str, reader: Reader, is_last: bool) -> Branch:
        """A branch; one that doesn't say when it is taken counts as the default where that should stand."""
        is_clear = reader.allow(BRANCH_KEYS, "a branch")
        reader.require("next", "a branch")
        is_default = reader.flag("default")
        named = reader.names("next")
        self._leads.append((parent, named))
        targets = tuple(named)
        if is_default != ("condition" in reader.given):
            return Branch(targets, reader.given.get("condition"), is_default)
        if is_clear and isinstance(reader.given.get("default", True), bool):
            reader.note("a branch has either a condition or default: true", "Keep one." if is_default else "Add one.")
        return Branch(targets, None if is_last else True, is_last)

    def _connect(self, nodes: Mapping[str, Node]) -> None:
        """Every edge, from whichever end it is written; what depends_on says of it stands."""
        self._all, self._any = {name: [] for name in nodes}, {name: [] for name in nodes}
        for name, reader in self._waits:
            self._depend(name, reader, nodes)
        for name, named in self._leads:
            self._lead(name, named, nodes)

    def _depend(self, name: str, reader: Reader, nodes: Mapping[str, Node]) -> None:
        given = reader.given.get("depends_on")
        if not isinstance(given, dict):
            self._wait(name, reader.names("depends_on"), self._all, nodes)
            return
        inner = Reader(given, (*reader.path, "depends_on"), self.notes)
        inner.allow(DEPENDS_KEYS, "depends_on")
        all_of, any_of = inner.names("all_of"), inner.names("any_of")
        for twice in all_of.keys() & any_of.keys():
            self._wrong(any_of.pop(twice), f"{quote(twice)} stands in all_of already", "Keep one of them.")
        self._wait(name, all_of, self._all, nodes)
        self._wait(name, any_of, self._any, nodes)

    def _wait(
        self, name: str, named: Mapping[str, Path], edges: Mapping[str, list[str]], nodes: Mapping[str, Node]
    ) -> None:
        for parent, path in named.items():
            if self._check_target(parent, path, nodes) and nodes[parent].kind is Kind.END and parent != name:
                self._wrong(path, f"nothing can come after an end, and {quote(parent)} is one")
            elif parent in nodes:
                edges[name].append(parent)

    def _lead(self, parent: str, named: Mapping[str, Path], nodes: Mapping[str, Node]) -> None:
        for child, path in named.items():
            if not self._check_target(child, path, nodes):
                continue
            if nodes[child].kind is Kind.START and child != parent:
                self._wrong(path, f"nothing can come before a start, and {quote(child)} is one")
            elif parent not in self._all[child] and parent not in self._any[child]:
                self._all[child].append(parent)

    def _check_target(self, name: str, path: Path, nodes: Mapping[str, Node]) -> bool:
        if name in nodes:
            return True
        self.notes.is_whole = False
        hint = "Add END to the nodes, or leave this out." if name == "END" else ""
        if self.notes.count < MAX_MISTAKES:
            hint = hint or nearest(name, list(nodes))
        self._wrong(path, f"there is no node {quote(name)}", hint)
        return False

    def _wrong(self, path: Path, message: str, hint: str = "") -> None:
        self.notes.add(Mistake(path, message, hint, of_value=True))

    def _linked(self, nodes: Mapping[str, Node]) -> tuple[Node, ...]:
        """The nodes with their edges, in order: the same edges are the same workflow, wherever they are written."""
        place = {name: number for number, name in enumerate(nodes)}
        linked = [
            replace(
                node,
                after=tuple(sorted(self._all[name], key=place.__getitem__)),
                after_any=tuple(sorted(self._any[name], key=place.__getitem__)),
            )
            for name, node in nodes.items()
        ]
        ordered, caught = in_order(linked)
        return (*ordered, *caught)


def _owner(given: Mapping[str, Json]) -> tuple[str, Kind] | None:
    """A key that only one type of nodes has, where nothing else tells the type, and that type."""
    keys = [] if "handler" in given else [key for key in given if key not in NODE_KEYS[Kind.TASK]]
    owners = ((key, kind) for key in keys for kind in Kind if key in NODE_KEYS[kind])
    return next(owners, None)


def _beside_task(key: str) -> str:
    return "It stands beside task, not in it." if key in NODE_KEYS[Kind.FAN_OUT] else ""


def _beside_nested(key: str) -> str:
    return _beside_task(key) or (_INSIDE if key in RUNNING else "")


def _belongs(key: str, kind: Kind) -> str:
    """Where a key belongs that nodes of this type don't have."""
    if kind is Kind.WORKFLOW and key == "handler":
        return "A node has a handler or runs a workflow."
    if kind is Kind.WORKFLOW and key in RUNNING:
        return _INSIDE
    if key == "next" and kind is Kind.CONDITIONAL:
        return "Each of its branches has its own."
    if key in (*RUNNING, *NESTED) and kind is Kind.FAN_OUT:
        return "It stands in its task."
    if key == "depends_on" and kind is Kind.START:
        return "Nothing can come before a start."
    if key == "next" and kind is Kind.END:
        return "Nothing can come after an end."
    owners = [str(other) for other, keys in NODE_KEYS.items() if key in keys]
    return f"Nodes of type {' and '.join(owners)} have it." if owners else ""
