"""@handler, the Context a handler sees, and the call that runs one."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError

from anabranch.engine.canonical import Json
from anabranch.engine.context import Context
from anabranch.engine.errors import ContractViolationError, DefinitionError, Permanent
from anabranch.engine.spool import Spool
from anabranch.engine.workflow import DEFAULT_QUEUE, DEFAULT_TIMEOUT, Retry

__all__ = [
    "Context",
    "Handler",
    "HandlerContext",
    "Runs",
    "TaskContext",
    "call_handler",
    "handler",
    "handlers_in",
    "register_handler",
]

Function = TypeVar("Function", bound=Callable[..., Any])  # a handler's own types are checked when it is registered
_MARK = "__anabranch_handlers__"


class Runs(StrEnum):
    """Where a handler runs."""

    IN_LOOP = "in the worker's loop"
    QUICKLY = "in the worker's thread for short ones"
    IN_CHILD = "in a child that is kept"
    HEAVILY = "in a fresh child with limits"


@dataclass(frozen=True)
class Handler:
    """A function that tasks call, under the name that workflows use."""

    name: str
    function: Callable[..., Any]  # called with what `arguments` names
    arguments: tuple[str, ...]
    model: type[BaseModel] | None
    queue: str = DEFAULT_QUEUE
    timeout: timedelta = DEFAULT_TIMEOUT
    retry: Retry = Retry()
    runs: Runs = Runs.IN_CHILD


TaskContext = Context
HandlerContext = Context


def handler(
    name: str,
    *,
    queue: str = DEFAULT_QUEUE,
    timeout_seconds: float = DEFAULT_TIMEOUT.total_seconds(),
    retry: Retry | None = None,
    heavy: bool = False,
    quick: bool = False,
) -> Callable[[Function], Function]:
    """Declare a function as the handler of this name.

    `heavy`: a fresh child with limits for each task. `quick`: in the worker itself; for code that takes well under a
    second and calls nothing that could block or crash.
    """

    def register(function: Function) -> Function:
        runs = _where(name, function, heavy=heavy, quick=quick)
        declared = _describe(name, function, queue, timedelta(seconds=timeout_seconds), retry or Retry(), runs)
        marks = [*getattr(function, _MARK, ()), declared]
        setattr(function, _MARK, marks)
        return function

    return register


register_handler = handler


def handlers_in(namespace: Mapping[str, object]) -> list[Handler]:
    """The handlers that a module declares, by decorator or in its `ALL_HANDLERS`."""
    found = {mark.name: mark for value in namespace.values() for mark in getattr(value, _MARK, ())}
    listed = namespace.get("ALL_HANDLERS", {})
    if not isinstance(listed, dict):
        raise DefinitionError("plugin.invalid", "ALL_HANDLERS must be a dict of names and functions")
    for name, function in listed.items():
        where = _where(name, function)
        found.setdefault(name, _describe(name, function, DEFAULT_QUEUE, DEFAULT_TIMEOUT, Retry(), where))
    return list(found.values())


def call_handler(declared: Handler, context: Context) -> Any:  # what the handler returns, checked by the caller
    """Call a handler with what it asks for; for an async one, the coroutine to await."""
    given: dict[str, object] = {"params": _parameters(declared, context.params), "ctx": context}
    return declared.function(*(given[name] for name in declared.arguments))


def _parameters(declared: Handler, params: Mapping[str, Json]) -> object:
    if declared.model is None:
        return dict(params)
    try:
        return declared.model.model_validate(dict(_listed(params)))
    except ValidationError as error:
        mistakes = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'parameters'}: {e['msg']}" for e in error.errors())
        raise Permanent(f"{declared.name} refused its parameters: {mistakes}", code="handler.parameters") from error


def _listed(params: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The parameters with results in a list, as a model asks for them."""
    for key, value in params.items():
        yield key, list(value) if isinstance(value, Spool) else value


def _where(name: str, function: object, *, heavy: bool = False, quick: bool = False) -> Runs:
    if inspect.iscoroutinefunction(function):
        if heavy or quick:
            raise DefinitionError("handler.unsupported", f"handler {name!r} is async, and so neither heavy nor quick")
        return Runs.IN_LOOP
    if heavy and quick:
        raise DefinitionError("handler.unsupported", f"handler {name!r} can't be both heavy and quick")
    return Runs.HEAVILY if heavy else Runs.QUICKLY if quick else Runs.IN_CHILD


def _describe(name: str, function: object, queue: str, timeout: timedelta, retry: Retry, runs: Runs) -> Handler:
    if not name or not callable(function) or inspect.isclass(function):
        raise DefinitionError("handler.unsupported", f"handler {name!r} must be a function, not {function!r}")
    arguments, model = _arguments(name, function)
    return Handler(name, function, arguments, model, queue, timeout, retry, runs)


def _arguments(name: str, function: Callable[..., object]) -> tuple[tuple[str, ...], type[BaseModel] | None]:
    hints = get_type_hints(function)
    names, model = [], None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        if (isinstance(hint, type) and issubclass(hint, Context)) or parameter.name in ("ctx", "context"):
            names.append("ctx")
        else:
            names.append("params")
            model = hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None
    if sorted(names) not in (["params"], ["ctx"], ["ctx", "params"]):
        raise DefinitionError(
            "handler.signature",
            f"handler {name!r} takes {len(names)} arguments",
            remedy="A handler takes (params), (params, ctx) or (ctx).",
        )
    return tuple(names), model


def check_result(declared: Handler, value: object) -> Json:
    """The handler's result as JSON can hold it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if value is not None and not isinstance(value, bool | int | float | str | list | dict | tuple):
        raise ContractViolationError(f"{declared.name} returned a {type(value).__name__}; return a dict or a model")
    return value  # type: ignore[return-value]  # its depth is checked when it is encoded
