"""The trace of one workflow function: the nodes that its calls make, and the document that they become."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from anabranch.workflows.expressions.syntax import Lookup, Reference
from anabranch.workflows.python.places import Place, find_place, mistake_here
from anabranch.workflows.python.recorder import CURRENT, MARK, Recorder
from anabranch.workflows.python.symbols import Symbol, expression_of, pieces_of, references
from anabranch.workflows.rules import Model, declared_values
from anabranch.workflows.work import Handler
from anabranch.workflows.yaml.tree import FileMistake

__all__ = ["Branch", "Trace", "TracedNode", "Value", "adopt", "current_trace", "nodes_in", "references_in"]

Value = Any  # JSON with symbols in it


@dataclass(frozen=True)
class Branch:
    """A way of a choice: its condition (the last has none), the value that is chosen, and the nodes made for it."""

    condition: Symbol | None
    value: Value
    made: frozenset[str] | None  # by a lambda; None: the value was there already


@dataclass(eq=False)
class TracedNode:
    """A node as its call made it. Values in it refer to other nodes by key: names are given when all are known."""

    key: str
    name: str
    is_named: bool
    place: Place
    type: str
    keys: dict[str, Value]
    after: tuple[str, ...] = ()
    after_any: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    keeps_edges: bool = False  # it comes after all that it names, also where one comes before another
    result: tuple[str, ...] = ()  # the path from its output to what its call gives


class Trace(Recorder):
    """What the calls in a workflow function have made so far."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, TracedNode] = {}
        self.mistakes: list[FileMistake] = []
        self.handlers: dict[str, Handler] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the function is called."""
        token = CURRENT.set(self)
        try:
            yield
        finally:
            CURRENT.reset(token)

    def add(self, name: str, kind: str, keys: Mapping[str, Value], **more: Any) -> TracedNode:
        """A node; options that every node has are taken out of its keys."""
        own = {key: adopt(value) for key, value in keys.items() if value is not None}
        given, after, after_any = own.pop("name", None), own.pop("after", ()), own.pop("after_any", ())
        if given is not None:
            _known_text(given, "the name of a node")
        key = f"{MARK}{len(self.nodes)}"
        node = TracedNode(
            key,
            given or name,
            bool(given),
            find_place(),
            kind,
            own,
            tuple(nodes_in(after)),
            tuple(nodes_in(after_any)),
            **more,
        )
        self.nodes[key] = node
        return node

    def symbol(self, node: TracedNode) -> Symbol:
        """What a node gives."""
        return Symbol(Lookup(Reference("nodes", (node.key, "output", *node.result))), self)

    def note(self, place: Place, message: str, hint: str = "") -> None:
        """Note a mistake; the trace goes on."""
        self.mistakes.append(FileMistake(*place, message, hint))


def current_trace() -> Trace | None:
    """The trace that runs now."""
    found = CURRENT.get()
    return found if isinstance(found, Trace) else None


def adopt(value: Value) -> Value:
    """A value as a document can hold it, with symbols of this trace."""
    match value:
        case Symbol():
            return Symbol(expression_of(value), value._trace)
        case None | bool() | int() | float():
            return value
        case str():
            pieces_of(value)  # those of another trace are refused
            return value
        case list() | tuple():
            return [adopt(part) for part in value]
        case Mapping():
            return {_known_text(key, "a key of an object"): adopt(part) for key, part in value.items()}
        case BaseModel():
            return value.model_dump(mode="json", by_alias=True)
        case Model():
            return declared_values(value)
        case datetime():
            return value.isoformat()
        case _:
            said = f"a {type(value).__name__} can't be stored in a workflow"
            raise mistake_here(said, "Give JSON, or a value of the job.")


def _known_text(value: Value, what: str) -> str:
    if not isinstance(value, str) or MARK in value:
        raise mistake_here(f"{what} is a text that is known when the workflow is loaded")
    return value


def references_in(value: Value) -> Iterator[tuple[Reference, bool]]:
    """Every reference in a value, and whether what it names may be missing."""
    match value:
        case Symbol():
            yield from references(value._expression)
        case str():
            for piece in pieces_of(value):
                if not isinstance(piece, str):
                    yield from references(piece)
        case list():
            for part in value:
                yield from references_in(part)
        case dict():
            for part in value.values():
                yield from references_in(part)
        case _:
            pass


def nodes_in(value: Value) -> dict[str, bool]:
    """The keys of the nodes that a value refers to, and whether each may be missing."""
    found: dict[str, bool] = {}
    for reference, is_optional in references_in(value):
        if reference.root == "nodes":
            key = str(reference.path[0])
            found[key] = found.get(key, True) and is_optional
    return found
