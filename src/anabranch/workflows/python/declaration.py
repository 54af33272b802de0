"""@workflow: a typed function is traced once, and becomes the same definition that a file would be."""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, update_wrapper
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from anabranch.canonical import Json
from anabranch.errors import AnabranchError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions.syntax import Lookup, Reference
from anabranch.workflows.mistakes import Mistake
from anabranch.workflows.python.calls import WorkflowCall
from anabranch.workflows.python.documents import TracedDocument
from anabranch.workflows.python.places import Place, TraceError, place_of_error
from anabranch.workflows.python.signature import read_signature
from anabranch.workflows.python.symbols import Symbol
from anabranch.workflows.python.tracing import Trace, adopt
from anabranch.workflows.work import Handler
from anabranch.workflows.yaml.load import Loaded, load_document
from anabranch.workflows.yaml.tree import FileMistake

__all__ = ["WorkflowFunction", "functions_in", "workflow"]

P = ParamSpec("P")
R = TypeVar("R")
RESULT = "result"  # the key of what a function returns that is no dict: a job's result is an object


class WorkflowFunction(WorkflowCall[P, R]):
    """A workflow that a function declares. `load` traces it; in another workflow function it is called as a node."""

    def __init__(self, function: Callable[P, R], workflow_id: str, about: Mapping[str, Json]) -> None:
        code = inspect.unwrap(function).__code__
        self._place = Place(code.co_filename, code.co_firstlineno)
        if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
            raise TraceError(
                "a workflow function is a plain function", "It only describes; handlers may be async.", self._place
            )
        self._function = function
        self._inputs = read_signature(function, self._place)
        described = (inspect.getdoc(function) or "").split("\n")[0]
        self._about: dict[str, Json] = {"workflow_id": workflow_id, **({"description": described} if described else {})}
        self._about |= {key: value for key, value in about.items() if value}
        super().__init__(workflow_id, {"workflow": workflow_id}, tuple(self._inputs), in_order=True)
        update_wrapper(self, function)

    def __reduce__(self) -> str:
        return self.__qualname__

    @property
    def id(self) -> str:
        """The id of the workflow."""
        return str(self._about["workflow_id"])

    @property
    def workflow(self) -> Workflow:
        """The workflow, checked against the handlers that it calls; DefinitionError has every mistake."""
        return self.load().require()

    def load(self, handlers: Mapping[str, Handler] | None = None) -> Loaded:
        """The workflow, or its mistakes; checked against these handlers, or those that it calls."""
        traced = self._traced
        known = traced.handlers if handlers is None else handlers
        loaded = load_document(traced.document, traced.place, known)
        if not traced.mistakes:
            return loaded
        found = loaded.mistakes if "nodes" in traced.document else ()
        return Loaded(None, (*found, *traced.mistakes), loaded.draft, loaded.place)

    def _result(self) -> tuple[str, ...]:
        is_known = self.__dict__.get("_is_tracing") is None  # a workflow that calls itself is refused later
        return (RESULT,) if is_known and self._traced.is_wrapped else ()

    @cached_property
    def _traced(self) -> "_Traced":
        self._is_tracing = True
        try:
            return _Traced(self._function, self._about, self._inputs, self._place)
        finally:
            del self._is_tracing


class _Traced:
    """What a call of the function with a symbol for each parameter has made."""

    def __init__(
        self,
        function: Callable[..., Any],
        about: Mapping[str, Json],
        inputs: Mapping[str, dict[str, Json]],
        place: Place,
    ) -> None:
        trace = Trace()
        self.mistakes, self.handlers = trace.mistakes, trace.handlers
        self._places: dict[str, Place] = {}
        self._function_place = place
        self.is_wrapped = False
        self.document: dict[str, Json] = {**about, "inputs": dict(inputs)}
        with trace.running():
            returned = None
            try:
                returned = function(**{name: _input(trace, name, said) for name, said in inputs.items()})
            except Exception as error:  # noqa: BLE001  # the code of the function may raise anything
                self.mistakes.append(_mistake_of(error, place))
            try:
                self._write(trace, adopt(returned))
            except TraceError as error:  # the code of the function is behind us
                trace.note(place, error.mistake.message, error.mistake.hint)

    def _write(self, trace: Trace, returned: Any) -> None:  # JSON with symbols in it
        self.is_wrapped = returned is not None and not isinstance(returned, dict)
        made = TracedDocument(trace, {RESULT: returned} if self.is_wrapped else returned)
        self._places = made.places
        if made.nodes or not self.mistakes:
            self.document["nodes"] = made.nodes
        if made.output is not None:
            self.document["output"] = made.output

    def place(self, mistake: Mistake) -> FileMistake:
        """A mistake at the call that made its node, or at the function."""
        kind, name, *_ = (*mistake.path, "", "")
        found = self._places.get(str(name)) if kind == "nodes" else None
        return FileMistake(*(found or self._function_place), mistake.message, mistake.hint)


def _input(trace: Trace, name: str, said: Mapping[str, Json]) -> Symbol:
    is_there = "default" in said or said.get("required") is True
    return Symbol(Lookup(Reference("inputs", (name,), optional=not is_there)), trace)


def _mistake_of(error: Exception, function: Place) -> FileMistake:
    if isinstance(error, TraceError):
        return error.mistake
    place = place_of_error(error, function.file) or function
    said = error.message if isinstance(error, AnabranchError) else f"{type(error).__name__}: {error}"
    return FileMistake(*place, said)


class _Declare(Protocol):
    def __call__(self, function: Callable[P, R], /) -> WorkflowFunction[P, R]: ...


@overload
def workflow(function: Callable[P, R], /) -> WorkflowFunction[P, R]: ...
@overload
def workflow(
    workflow_id: str = "",
    /,
    *,
    name: str = "",
    description: str = "",
    version: int = 1,
    priority: int = 5,
    rerun: bool = False,
) -> _Declare: ...
def workflow(
    given: Callable[..., Any] | str = "",
    /,
    *,
    name: str = "",
    description: str = "",
    version: int = 1,
    priority: int = 5,
    rerun: bool = False,
) -> Any:
    """Declare a function as a workflow: by default under its own name, described by the first line of its docstring."""

    def declare(function: Callable[P, R], /) -> WorkflowFunction[P, R]:
        about: dict[str, Json] = {"name": name, "description": description, "version": version, "priority": priority}
        about["rerun"] = rerun
        return WorkflowFunction(function, given if isinstance(given, str) and given else function.__name__, about)

    return declare(given) if callable(given) else declare


def functions_in(namespace: Mapping[str, object]) -> list[WorkflowFunction[..., Any]]:
    """The workflow functions that a module declares, by decorator or in its `ALL_JOBS`."""
    listed = namespace.get("ALL_JOBS", {})
    values = [*namespace.values(), *(listed.values() if isinstance(listed, dict) else ())]
    return [value for value in dict.fromkeys(filter(_is_function, values)) if isinstance(value, WorkflowFunction)]


def _is_function(value: object) -> bool:
    return isinstance(value, WorkflowFunction)
