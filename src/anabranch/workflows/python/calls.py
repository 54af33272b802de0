"""What can be called in a workflow function: handlers, workflows, gates, waits and choices. Each call is a node."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import update_wrapper
from typing import Any, ClassVar, Generic, Literal, NoReturn, ParamSpec, TypedDict, TypeVar, Unpack, overload

from anabranch.workflows.expressions.syntax import Expression, Lookup
from anabranch.workflows.mistakes import nearest
from anabranch.workflows.nodes import FanOutNode, TaskNode, WorkflowNode
from anabranch.workflows.python.places import find_place, mistake_here
from anabranch.workflows.python.signature import read_fields
from anabranch.workflows.python.symbols import Symbol, expression_of, item
from anabranch.workflows.python.tracing import Branch, Trace, TracedNode, adopt, current_trace, nodes_in, references_in
from anabranch.workflows.rules import declared_keys
from anabranch.workflows.work import Handler, HandlerWork, Retry, WorkflowWork

__all__ = [
    "HandlerFunction",
    "NodeCall",
    "Options",
    "choose",
    "end",
    "fan_in",
    "gate",
    "task",
    "wait",
    "workflow_named",
]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="NodeCall[..., Any]")
Value = Any  # JSON, or a value of the job
_ANY_NODE = ("name", "after", "after_any")
_UNFIT = re.compile(r"\W+", re.ASCII)


class NodeOptions(TypedDict, total=False):
    """Keys that all nodes have, as a file has them; `after` and `after_any` name nodes by their values."""

    after: Value
    after_any: Value
    description: str
    when: Value
    on_failure: Literal["fail", "finish", "continue"]


class Options(NodeOptions, total=False):
    """Keys of a node with tasks, of a fan-out and of its fan-in."""

    name: str
    retry: Retry
    priority: int
    limit: Value
    handler_version: int
    queue: str
    timeout_seconds: float
    queue_timeout_seconds: float
    heartbeat_timeout_seconds: float
    total_timeout_seconds: float
    max_items: int
    concurrency: int
    batch_size: int
    tolerate: int | str
    aggregation: Value
    finally_: bool


class NodeCall(Generic[P, R]):
    """Something that runs as a node: called in a workflow function, it returns a value of the job."""

    __name__: str
    __qualname__: str
    _models: ClassVar[tuple[type, type]] = (TaskNode, HandlerWork)  # of its node, and of the task of a fan-out

    def __init__(self, name: str, runs: Mapping[str, str], takes: tuple[str, ...] | None, *, in_order: bool) -> None:
        """`takes` are its parameters, None if it takes any; `in_order` says that they may be given by position."""
        self._name = _UNFIT.sub("_", name)
        self._runs = dict(runs)
        self._takes = takes
        self._in_order = in_order
        self._options: dict[str, Value] | None = None

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, **params: Value) -> R: ...  # inside a trace: without the context, with options
    def __call__(self, *args: Value, **kwargs: Value) -> Any:
        """A node, inside a workflow function."""
        trace = current_trace()
        if trace is None:
            return self._call_plainly(*args, **kwargs)
        params, options = self._split(args, kwargs)
        self._check_options(options, _keys(self._models[0]))
        return trace.symbol(self._add(trace, {**self._runs, "params": params, **options}))

    def map(self, items: Value, /, **params: Value) -> "Mapped":
        """A node with a task for each item; each is the first parameter, unless one is said by `item`."""
        trace = _trace(f"{self._name}.map")
        given, options = self._split((), params)
        fold = options.pop("aggregation", self._collect())
        self._check_options(options, {*_keys(FanOutNode), *_keys(self._models[1])})
        if not any(reference.root == "item" for reference, _ in references_in(adopt(given))):
            given = {self._first(given): item, **given}
        own = {key: value for key, value in options.items() if key in _ANY_NODE or key in declared_keys(FanOutNode)}
        work = {key: value for key, value in options.items() if key not in own}
        made = trace.add(
            self._name, "fan_out", {"source": items, "task": {**self._runs, "params": given, **work}, **own}
        )
        self._note_use(trace)
        return Mapped(trace, made, fold)

    def options(self: C, **options: Unpack[Options]) -> C:
        """The same with options of its node; what it is called with then are parameters only."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        given = {key.rstrip("_"): value for key, value in options.items()}  # `finally` is a word of Python
        made._options = {**(self._options or {}), **given}
        return made

    def _call_plainly(self, *args: Value, **kwargs: Value) -> Any:
        raise _outside(self._name)

    def _collect(self) -> Value:
        """How the results of its tasks are collected, unless a fold is given."""
        return "collect"

    def _add(self, trace: Trace, keys: Mapping[str, Value]) -> TracedNode:
        self._note_use(trace)
        return trace.add(self._name, "task", keys)

    def _note_use(self, trace: Trace) -> None:
        """Let the trace know what is called."""

    def _split(self, args: tuple[Value, ...], kwargs: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
        """The parameters and the options that a call was given."""
        takes = self._takes or ()
        if (args and not self._in_order) or len(args) > len(takes):
            raise mistake_here(f"{self._name} takes its parameters by keyword", self._say_what_it_takes())
        params = {**dict(zip(takes, args, strict=False)), **kwargs}
        if len(params) < len(args) + len(kwargs):
            raise mistake_here(f"{self._name} is given a parameter twice")
        if self._options is not None:
            return params, dict(self._options)
        options = {key: params.pop(key) for key in list(params) if key in Options.__annotations__ and key not in takes}
        if options and self._takes is None:
            said = f"{self._name} takes any parameters, so {', '.join(options)} may be one, or an option of the node"
            hint = f"Write {self._name}.options(…)(…): options in the first, parameters in the second."
            raise mistake_here(said, hint)
        return params, options

    def _check_options(self, options: Mapping[str, Value], known: set[str]) -> None:
        for key in options:
            if key not in known:
                raise mistake_here(f"this node has no option {key!r}", nearest(key, sorted(known)))

    def _first(self, given: Mapping[str, Value]) -> str:
        left = [name for name in self._takes or () if name not in given]
        if not left:
            raise mistake_here("which parameter is the item?", f"Name it: {self._name}.map(items, parameter=item).")
        return left[0]

    def _say_what_it_takes(self) -> str:
        return "" if self._takes is None else f"It takes {', '.join(self._takes) or 'nothing'}."


class HandlerFunction(NodeCall[P, R]):
    """A handler: outside of workflow functions, the function that it is; inside, a node that runs it."""

    def __init__(self, declared: Handler, function: Callable[P, R] | None = None, *, in_order: bool = False) -> None:
        name = getattr(function, "__name__", declared.name.rpartition(".")[2])
        super().__init__(name, {"handler": declared.name}, _parameters_of(declared), in_order=in_order)
        self._declared = declared
        self._function = function
        if function is not None:
            update_wrapper(self, function)

    def __reduce__(self) -> str:
        return self.__qualname__

    def _call_plainly(self, *args: Value, **kwargs: Value) -> Any:
        if self._function is None:
            raise _outside(self._name)
        return self._function(*args, **kwargs)

    def _note_use(self, trace: Trace) -> None:
        if self._function is not None or self._declared.name not in trace.handlers:
            trace.handlers[self._declared.name] = self._declared


class Mapped(Symbol):
    """What the tasks of a fan-out give together; its fan-in is made when this is used, or folded."""

    __slots__ = ("_fan_out", "_fold")

    def __init__(self, trace: Trace, fan_out: TracedNode, fold: Value) -> None:
        super().__init__(None, trace)
        self._fan_out = fan_out
        self._fold = fold

    @property
    def _expression(self) -> Expression:
        if self._held is None:
            trace = _trace("map")
            made = trace.symbol(self._fan_out) if self._fold is None else self.fold(self._fold)
            self._held = made._expression
        return self._held

    def fold(
        self,
        aggregation: Value = "collect",
        *,
        name: str | None = None,
        queue: str | None = None,
        **options: Unpack[NodeOptions],
    ) -> Any:
        """A fan-in: one fold of all results, or several by name, as the key `aggregation` of a file has them."""
        trace = _trace("fold")
        after = [trace.symbol(self._fan_out), options.pop("after", None)]
        keys = {"aggregation": aggregation, "name": name, "queue": queue, "after": after, **options}
        return trace.symbol(trace.add(f"all_{self._fan_out.name}", "fan_in", keys))


def task(handler: str) -> HandlerFunction[..., Any]:
    """The handler of this name, for one that can't be imported here."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise _outside(handler)

    return HandlerFunction(Handler(handler, refuse, ("params",), None))


def workflow_named(workflow_id: str) -> "NodeCall[..., Any]":
    """The workflow of this id, for one that can't be imported here: one in YAML, or with stages."""
    return WorkflowCall(workflow_id, {"workflow": workflow_id}, None, in_order=False)


class WorkflowCall(NodeCall[P, R]):
    """A workflow: called in a workflow function, a job of it."""

    _models: ClassVar[tuple[type, type]] = (WorkflowNode, WorkflowWork)

    def _add(self, trace: Trace, keys: Mapping[str, Value]) -> TracedNode:
        return trace.add(self._name, "workflow", keys, result=self._result())

    def _collect(self) -> Value:
        path = ".".join(self._result())
        return {"items": {"collect": path}} if path else "collect"

    def _result(self) -> tuple[str, ...]:
        """The path to what the function returned, in the result of its job."""
        return ()


def gate(
    name: str,
    *,
    timeout_seconds: float | None = None,
    answer: Mapping[str, Any] | None = None,  # types, as of the parameters of a workflow, or inputs
    **options: Unpack[NodeOptions],
) -> Any:
    """Wait for a person's approval or a signal; its data are the value, with the fields of `answer` if it is given."""
    trace = _trace("gate")
    fields = None if answer is None else read_fields(answer, find_place())
    keys = {"timeout_seconds": timeout_seconds, "answer": fields, "name": name, **options}
    return trace.symbol(trace.add(name, "gate", keys))


def fan_in(
    first: Value,
    *others: Value,
    aggregation: Value = "collect",
    name: str | None = None,
    queue: str | None = None,
    **options: Unpack[NodeOptions],
) -> Any:
    """A fan-in of several nodes, in this order: of what `.map` returns all results, of others the one."""
    trace = _trace("fan_in")
    after = [_source(trace, value) for value in (first, *others)]
    keys = {"aggregation": aggregation, "name": name, "queue": queue, "after": after, **options}
    return trace.symbol(trace.add("fan_in", "fan_in", keys, keeps_edges=True))


def _source(trace: Trace, value: Value) -> Symbol:
    """What stands for the node that a value is all of."""
    if isinstance(value, Mapped):
        return trace.symbol(value._fan_out)
    expression = expression_of(value)
    found = next(iter(nodes_in(value)), None) if isinstance(expression, Lookup) else None
    if found is None or expression_of(trace.symbol(trace.nodes[found])) != expression:
        raise mistake_here("fan_in collects what calls return, and this is something else", "Pass the call's value.")
    return trace.symbol(trace.nodes[found])


def wait(
    *, seconds: Value = None, until: datetime | Value = None, name: str | None = None, **options: Unpack[NodeOptions]
) -> Any:
    """Wait for some time, or until a time."""
    trace = _trace("wait")
    return trace.symbol(
        trace.add("wait", "wait", {"duration_seconds": seconds, "until": until, "name": name, **options})
    )


def end(name: str = "", *, output: Mapping[str, Value] | None = None, **options: Unpack[NodeOptions]) -> Any:
    """Nothing comes after it: a branch that leads nowhere. It may have the job's result."""
    trace = _trace("end")
    return trace.symbol(trace.add("end", "end", {"name": name or None, "output": output, **options}))


def choose(condition: Value, then: Value, *more: Value, name: str | None = None, **options: Unpack[NodeOptions]) -> Any:
    """The one value or the other: `choose(condition, then, otherwise)`, with further conditions and values between.

    The nodes that only one value needs run only if it is chosen. A value may be a lambda that makes it.
    """
    trace = _trace("choose")
    given = [condition, then, *more, *([] if len(more) % 2 else [None])]
    conditions, values = given[:-1:2], [*given[1:-1:2], given[-1]]
    for one in conditions:
        if not isinstance(one, Symbol):
            raise mistake_here("a condition of choose is a value of the job", "What is known already needs only if.")
    branches = [_branch(trace, one, value) for one, value in zip([*map(adopt, conditions), None], values, strict=True)]
    return trace.symbol(trace.add("choose", "conditional", {"name": name, **options}, branches=tuple(branches)))


def _branch(trace: Trace, condition: Symbol | None, value: Value) -> Branch:
    if isinstance(value, Symbol) or not callable(value):
        return Branch(condition, adopt(value), None)
    before = len(trace.nodes)
    made = adopt(value())
    return Branch(condition, made, frozenset(list(trace.nodes)[before:]))


def _parameters_of(declared: Handler) -> tuple[str, ...] | None:
    """The names of a handler's parameters; None if it takes any."""
    if declared.model is None:
        return () if declared.arguments == ("ctx",) else None
    if declared.model.model_config.get("extra") == "allow":
        return None
    return tuple(field.alias or name for name, field in declared.model.model_fields.items())


def _keys(model: type) -> set[str]:
    return {*_ANY_NODE, *declared_keys(model)} - {"params", "handler", "workflow", "source", "task"}


def _trace(name: str) -> Trace:
    found = current_trace()
    if found is None:
        raise _outside(name)
    return found


def _outside(name: str) -> Exception:
    return mistake_here(f"{name} can be called only inside a function with @workflow", "Submit a job to run it.")
