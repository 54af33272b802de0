"""A DAG written in YAML becomes a Workflow. Every mistake of a file is found at once, with its line and column (G4)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.engine.canonical import Json
from anabranch.engine.errors import DefinitionError
from anabranch.engine.handler import Handler
from anabranch.engine.inputs import Input, read_input
from anabranch.engine.validator import Mistake, find_handler_mistakes, find_workflow_mistakes, nearest
from anabranch.engine.workflow import Branch, Kind, Node, Workflow
from anabranch.engine.yaml_keys import Reader
from anabranch.engine.yaml_tree import Tree, TreeError, read_tree

__all__ = ["FileMistake", "Loaded", "load_yaml"]

WORKFLOW_KEYS = ("workflow_id", "name", "version", "description", "priority", "inputs", "nodes", "output")
EVERY_NODE = ("type", "description", "next", "depends_on", "when", "on_failure")
RUNNING = (
    "handler", "queue", "params", "retry", "priority", "timeout_seconds", "queue_timeout_seconds",
    "heartbeat_timeout_seconds", "total_timeout_seconds",
)  # fmt: skip
KEYS: dict[Kind, tuple[str, ...]] = {
    Kind.TASK: (*EVERY_NODE, *RUNNING),
    Kind.START: ("type", "description", "next"),
    Kind.END: ("type", "description", "depends_on", "output"),
    Kind.CONDITIONAL: ("type", "description", "depends_on", "when", "condition_field", "branches"),
    Kind.FAN_OUT: (*EVERY_NODE, "source", "task", "max_items", "concurrency", "batch_size", "tolerate"),
    Kind.FAN_IN: (*EVERY_NODE, "aggregation", "queue"),
}
LATER = ("gate", "wait", "workflow")


@dataclass(frozen=True)
class FileMistake:
    """A mistake at its place in a file."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """As compilers say it."""
        return f"{self.file}:{self.line}:{self.column}: {self.message}" + (f" {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class Loaded:
    """What a file holds: a workflow, or the mistakes that keep it from being one."""

    workflow: Workflow | None
    mistakes: tuple[FileMistake, ...]

    def require(self) -> Workflow:
        """The workflow, or DefinitionError with every mistake."""
        if self.workflow is None or self.mistakes:
            raise DefinitionError("workflow.invalid", "\n".join(map(str, self.mistakes)))
        return self.workflow


def load_yaml(text: str | bytes, file: str, handlers: Mapping[str, Handler] | None = None) -> Loaded:
    """The workflow that a file spells; with handlers, it is checked against them too."""
    try:
        tree = read_tree(text, file)
    except TreeError as error:
        return Loaded(None, tuple(FileMistake(file, m.line, m.column, m.message, m.hint) for m in error.mistakes))
    draft = _Draft(tree)
    workflow = draft.read()
    found = [*draft.mistakes, *find_workflow_mistakes(workflow)]
    if handlers is not None:
        found += find_handler_mistakes(workflow, handlers)
    placed = {_place(tree, mistake): None for mistake in found}
    mistakes = tuple(sorted(placed, key=lambda mistake: (mistake.line, mistake.column)))
    return Loaded(None if mistakes else workflow, mistakes)


def _place(tree: Tree, mistake: Mistake) -> FileMistake:
    is_key = mistake.offset is None and bool(mistake.path) and isinstance(mistake.path[-1], str)
    at = tree.position(mistake.path, of_key=is_key)
    if mistake.offset is not None:
        at = tree.position_in(mistake.path, mistake.offset)
    return FileMistake(tree.name, at.line, at.column, mistake.message, mistake.hint)


class _Draft:
    """A file on its way to a workflow."""

    def __init__(self, tree: Tree) -> None:
        self.mistakes: list[Mistake] = []
        self._top = Reader(tree.value, (), self.mistakes)
        self._after: dict[str, list[str]] = {}
        self._any: dict[str, list[str]] = {}

    def read(self) -> Workflow:
        """The workflow, as far as it can be understood."""
        top = self._top
        top.allow(WORKFLOW_KEYS, "a workflow")
        top.require("workflow_id", "a workflow")
        if "nodes" not in top.given or not isinstance(top.given["nodes"], dict):
            top.require("nodes", "a workflow")
        raw = top.mapping("nodes") or {}
        nodes = {name: self._node(name, value) for name, value in raw.items()}
        self._connect(nodes)
        linked = [
            replace(node, after=tuple(self._after[name]), after_any=tuple(self._any[name]))
            for name, node in nodes.items()
        ]
        return Workflow(
            id=top.text("workflow_id", "unnamed") or "unnamed",
            name=top.text("name"),
            version=top.whole("version", 1) or 1,
            description=top.text("description"),
            priority=top.whole("priority", 1, 9) or 5,
            inputs=self._inputs(),
            output=top.mapping("output"),
            nodes=tuple(_in_order(linked)),
        )

    def _inputs(self) -> dict[str, Input]:
        declared: dict[str, Input] = {}
        for name, value in (self._top.mapping("inputs") or {}).items():
            given: Any = {} if value is None else value  # anything that stands in the file
            if not isinstance(given, dict):
                self._top.note(f"input {name!r} is a mapping like {{type: string}}", "", "inputs", name)
                continue
            try:
                declared[name] = read_input(name, given)
            except DefinitionError as error:
                self._top.note(error.message, error.remedy, "inputs", name)
        return declared

    def _node(self, name: str, value: Json) -> Node:
        self._after[name], self._any[name] = [], []
        given = value if isinstance(value, dict) else {}
        reader = Reader(given, ("nodes", name), self.mistakes)
        if not isinstance(value, dict):
            reader.note(f"node {name!r} is a mapping")
            return Node(name)
        kind = self._kind(reader, name)
        if kind is None:
            return Node(name)
        reader.allow(KEYS[kind], f"a node of type {kind}")
        shared = Node(
            name,
            kind=kind,
            description=reader.text("description"),
            when=given.get("when"),
            on_failure=reader.on_failure(),
        )
        match kind:
            case Kind.TASK:
                return self._running(shared, reader)
            case Kind.FAN_OUT:
                return self._fan_out(shared, reader)
            case Kind.FAN_IN:
                return replace(shared, queue=reader.text("queue") or None, folding=reader.folding())
            case Kind.CONDITIONAL:
                return self._conditional(shared, reader)
            case Kind.END:
                return replace(shared, output=reader.mapping("output"))
            case Kind.START:
                return shared

    def _kind(self, reader: Reader, name: str) -> Kind | None:
        given = reader.given.get("type")
        if given in LATER:
            reader.note(f"nodes of type {given} are not built yet", "", "type")
            return None
        if given is None and name in ("START", "END"):
            return Kind(name.lower())
        return reader.choice("type", Kind, Kind.TASK)

    def _running(self, node: Node, reader: Reader) -> Node:
        """A node with what says how its tasks run."""
        reader.require("handler", "a task")
        params = reader.mapping("params")
        return replace(
            node,
            handler=reader.text("handler"),
            queue=reader.text("queue") or None,
            params={} if params is None else params,
            retry=reader.retry(),
            priority=reader.whole("priority", 1, 9),
            timeout=reader.seconds("timeout_seconds"),
            queue_timeout=reader.seconds("queue_timeout_seconds"),
            heartbeat_timeout=reader.seconds("heartbeat_timeout_seconds"),
            total_timeout=reader.seconds("total_timeout_seconds"),
        )

    def _fan_out(self, node: Node, reader: Reader) -> Node:
        reader.require("source", "a fan_out")
        task = reader.inner("task")
        if task is None:
            reader.require("task", "a fan_out")
            return node
        task.allow(RUNNING, "the task of a fan_out")
        return replace(
            self._running(node, task),
            source=reader.given.get("source"),
            max_items=reader.whole("max_items", 1),
            max_running=reader.whole("concurrency", 1),
            batch_size=reader.whole("batch_size", 1),
            tolerate=reader.tolerance(),
        )

    def _conditional(self, node: Node, reader: Reader) -> Node:
        reader.require("branches", "a conditional")
        branches = []
        for branch in reader.listed("branches"):
            branch.allow(("condition", "default", "next"), "a branch")
            branch.require("next", "a branch")
            is_default = branch.given.get("default") is True
            if is_default == ("condition" in branch.given):
                branch.note("a branch has either a condition or default: true")
            branches.append(Branch(branch.names("next"), branch.given.get("condition"), is_default))
        return replace(node, subject=reader.given.get("condition_field"), branches=tuple(branches))

    def _connect(self, nodes: Mapping[str, Node]) -> None:
        """Every edge, from whichever end it is written."""
        raw = self._top.mapping("nodes") or {}
        for name, node in nodes.items():
            given = raw[name]
            if not isinstance(given, dict):
                continue
            reader = Reader(given, ("nodes", name), self.mistakes)
            for target in reader.names("next") if "next" in KEYS[node.kind] else ():
                self._link(name, target, nodes, ("nodes", name, "next"))
            for number, branch in enumerate(node.branches):
                for target in branch.next:
                    self._link(name, target, nodes, ("nodes", name, "branches", number, "next"))
            self._depend(name, reader, nodes)

    def _depend(self, name: str, reader: Reader, nodes: Mapping[str, Node]) -> None:
        given = reader.given.get("depends_on")
        if given is None or "depends_on" not in KEYS[nodes[name].kind]:
            return
        rules = given if isinstance(given, dict) else {"all_of": given}
        inner = Reader(rules, ("nodes", name, "depends_on"), self.mistakes)
        inner.allow(("all_of", "any_of"), "depends_on")
        for key, edges in (("all_of", self._after), ("any_of", self._any)):
            for parent in inner.names(key):
                if parent not in nodes:
                    inner.note(f"there is no node {parent!r}", nearest(parent, list(nodes)))
                elif parent not in edges[name]:
                    edges[name].append(parent)

    def _link(self, parent: str, child: str, nodes: Mapping[str, Node], path: tuple[str | int, ...]) -> None:
        if child not in nodes:
            self.mistakes.append(Mistake(path, f"there is no node {child!r}", nearest(child, list(nodes))))
        elif nodes[child].kind is Kind.START:
            self.mistakes.append(Mistake(path, "nothing can come before a start"))
        elif parent not in self._after[child] and parent not in self._any[child]:
            self._after[child].append(parent)


def _in_order(nodes: list[Node]) -> list[Node]:
    """The nodes so that each comes after those it waits for, else as written; those in a cycle come last."""
    ordered: list[Node] = []
    placed: set[str] = set()
    left = nodes
    while left:
        ready = [node for node in left if placed.issuperset(node.parents)]
        if not ready:
            return ordered + left
        ordered += ready
        placed.update(node.name for node in ready)
        left = [node for node in left if node.name not in placed]
    return ordered
