"""@handler, the Context a handler sees, and the call that runs one."""

import inspect
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, get_origin, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema

from anabranch.canonical import Json, JsonObject
from anabranch.contract import workflows as contract
from anabranch.contract.answer import build
from anabranch.engine.entry_points import NO_VERSION
from anabranch.engine.failure import spell_place
from anabranch.engine.worker.context import Context
from anabranch.engine.worker.previous_results import ResultFile
from anabranch.errors import ContractViolationError, DefinitionError, Permanent, TaskError, Transient
from anabranch.workflows.mistakes import list_errors
from anabranch.workflows.python import HandlerFunction
from anabranch.workflows.rules import Seconds, find_number_mistakes
from anabranch.workflows.work import DEFAULT_QUEUE, DEFAULT_TIMEOUT, Breaker, Handler, Retry, Runs

__all__ = [
    "Context",
    "HandlerContext",
    "HandlerResult",
    "TaskContext",
    "call_handler",
    "check_result",
    "describe_handler",
    "handler",
    "handlers_in",
    "place_of",
    "register_handler",
]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
_MARK = "__anabranch_handlers__"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ENVELOPE = {"success", "result", "error", "retry"}
VERSION = re.compile(r"\d{1,9}(\.\d{1,9}){0,3}((a|b|rc|\.dev|\.post)\d{1,9})?")


@dataclass
class HandlerResult:
    """How a handler says in one value how it went; returning the output, or raising, says the same."""

    success: bool
    output: Any = field(default_factory=dict)  # JSON or a model, checked as any result is
    error_message: str | None = None
    metrics: JsonObject = field(default_factory=dict)


TaskContext = Context
HandlerContext = Context


class _Declare(Protocol):
    """What makes a handler of a function; a class stays a class."""

    @overload
    def __call__(self, function: type[C], /) -> type[C]: ...  # type: ignore[overload-overlap]  # classes are callable
    @overload
    def __call__(self, function: HandlerFunction[P, R], /) -> HandlerFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, Any]], /) -> HandlerFunction[P, Any]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> HandlerFunction[P, R]: ...


def handler(
    name: str,
    *,
    queue: str = DEFAULT_QUEUE,
    timeout_seconds: float = DEFAULT_TIMEOUT.total_seconds(),
    retry: Retry | None = None,
    heavy: bool = False,
    quick: bool = False,
    version: str | None = None,
    breaker: Breaker | None = None,
) -> _Declare:
    """Declare a function, or a class with `execute`, as the handler of this name.

    The function can still be called as it is; inside a function with `@workflow`, a call is a node.

    `heavy`: a fresh child with limits for each task. `quick`: in the worker itself; for code that takes well under a
    second and calls nothing that could block or crash. `version`: raise it with each change after which results
    should be made again; it is part of the manifest of what is published. By default that of the installed package.
    `breaker`: stop all its tasks for a while when what it needs from outside fails again and again.
    """

    mistakes = list(find_number_mistakes(retry or Retry(), "retry."))
    if breaker is not None:
        mistakes += find_number_mistakes(breaker, "breaker.")
    if mistake := Seconds().find_mistake(timeout_seconds):
        mistakes.insert(0, f"timeout_seconds {mistake}")
    if version is not None and not VERSION.fullmatch(version):
        mistakes.append(f"version {version!r} is not a version like 2 or 1.4.0")
    if said := "; ".join(mistakes):
        raise DefinitionError("handler.unsupported", f"handler {name!r}: {said}")

    def register(given: Any, /) -> Any:  # a function or a class
        form = _form(name, given)
        runs = _where(name, form, heavy=heavy, quick=quick)
        declared = _declare(name, form, queue, timedelta(seconds=timeout_seconds), retry or Retry(), runs)
        declared = replace(declared, version=version, breaker=breaker)
        is_spread = isinstance(declared.function, _Spread)
        made = given if inspect.isclass(given) else HandlerFunction(declared, form.call, in_order=is_spread)
        setattr(made, _MARK, [*getattr(given, _MARK, ()), declared])
        return made

    return register


register_handler = handler


def handlers_in(namespace: Mapping[str, object]) -> list[Handler]:
    """The handlers that a module declares, by decorator or in its `ALL_HANDLERS`."""
    found = {mark.name: mark for value in namespace.values() for mark in getattr(value, _MARK, ())}
    listed = namespace.get("ALL_HANDLERS", {})
    if not isinstance(listed, dict):
        raise DefinitionError("plugin.invalid", "ALL_HANDLERS must be a dict of names and functions")
    for name, function in listed.items():
        marked = {mark.name: mark for mark in getattr(function, _MARK, ())}
        found.setdefault(name, marked.get(name) or _list(name, function))
    return list(found.values())


def describe_handler(declared: Handler, version: str = NO_VERSION) -> contract.Handler:
    """A handler as people and programs look it up, with the schemas of its models."""
    retry = declared.retry
    delays = retry.initial_delay.total_seconds(), retry.max_delay.total_seconds()
    return build(
        contract.Handler,
        declared,
        version=version,
        timeout_seconds=declared.timeout.total_seconds(),
        retry=contract.HandlerRetry(retry.max_attempts, retry.backoff.value, *delays),
        runs=declared.runs.value,
        parameters=_schema(declared.model, "validation", by_alias=True),
        result=_schema(declared.result, "serialization", by_alias=False),
    )


def place_of(declared: Handler) -> str:
    """Where a handler is written."""
    function = declared.function
    if isinstance(function, _Spread):
        function = function.call
    written = getattr(function.made, "execute", None) if isinstance(function, _Executed) else inspect.unwrap(function)
    code = getattr(written, "__code__", None)
    return spell_place(code, code.co_firstlineno, str(getattr(written, "__module__", ""))) if code else declared.name


def call_handler(declared: Handler, context: Context) -> Any:  # what the handler returns, checked by the caller
    """Call a handler with what it asks for; for an async one, the coroutine to await."""
    given: dict[str, object] = {"params": _parameters(declared, context.params), "ctx": context}
    return declared.function(*(given[name] for name in declared.arguments))


def check_result(declared: Handler, value: object, metrics: JsonObject) -> Json | TaskError:
    """The handler's result as JSON can hold it, or the failure it reports; what it measured goes to `metrics`."""
    if isinstance(value, HandlerResult):
        metrics.update(value.metrics)
        if not value.success:
            return _failure(value.error_message)
        value = value.output
    elif isinstance(value, dict) and isinstance(value.get("success"), bool) and value.keys() <= _ENVELOPE:
        if not value["success"]:
            return _failure(value.get("error"), again=bool(value.get("retry")))
        value = value.get("result")
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if value is not None and not isinstance(value, bool | int | float | str | list | dict | tuple):
        raise ContractViolationError(f"{declared.name} returned a {type(value).__name__}; return a dict or a model")
    return value  # type: ignore[return-value]  # its depth is checked when it is encoded


def _failure(said: object, *, again: bool = False) -> TaskError:
    kind = Transient if again else TaskError
    return kind(str(said) if said else "the handler says that it failed")


def _parameters(declared: Handler, params: Mapping[str, Json]) -> object:
    if declared.model is None:
        return dict(params)
    try:
        return declared.model.model_validate(dict(_listed(params)))
    except ValidationError as error:
        found, more = list_errors(error)
        mistakes = [f"{'.'.join(map(str, e['loc'])) or 'parameters'}: {e['msg']}" for e in found]
        said = "; ".join([*mistakes, more] if more else mistakes)
        raise Permanent(f"{declared.name} refused its parameters: {said}", code="handler.parameters") from error


def _listed(params: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The parameters with results in a list, as a model asks for them."""
    for key, value in params.items():
        yield key, list(value) if isinstance(value, ResultFile) else value


def _list(name: str, function: object) -> Handler:
    form = _form(name, function)
    return _declare(name, form, DEFAULT_QUEUE, DEFAULT_TIMEOUT, Retry(), _where(name, form))


@dataclass(frozen=True)
class _Form:
    """A handler as it is written: what is called, and the function that shows how."""

    call: Callable[..., Any]  # called with what the written function takes
    written: Callable[..., Any]  # its own types are checked when it is registered
    is_method: bool
    summary: str


def _form(name: str, given: Any) -> _Form:  # whatever is declared
    if not name or not callable(given):
        raise DefinitionError("handler.unsupported", f"handler {name!r} must be a function, not {given!r}")
    if isinstance(given, HandlerFunction):
        given = inspect.unwrap(given)
    if not inspect.isclass(given):
        return _Form(given, given, is_method=False, summary=_summary(given))
    execute = getattr(given, "execute", None)
    if not callable(execute):
        raise DefinitionError("handler.unsupported", f"handler {name!r} is a class without a method execute")
    if any(_is_required(parameter) for parameter in inspect.signature(given).parameters.values()):
        raise DefinitionError("handler.unsupported", f"handler {name!r}: {given.__name__} is made without arguments")
    is_method = inspect.isfunction(inspect.getattr_static(given, "execute"))
    return _Form(_Executed(given), execute, is_method, _summary(given) or _summary(execute))


@dataclass(frozen=True)
class _Executed:
    """Calls `execute` of the one instance of a class in this process, made when its first task runs."""

    made: type

    def __call__(self, *arguments: object) -> object:
        return _instance(self.made).execute(*arguments)


@dataclass(frozen=True)
class _Spread:
    """Calls a function that takes each parameter by itself, with those of the model made of its signature."""

    call: Callable[..., Any]
    context: str

    def __call__(self, params: BaseModel, context: Context) -> object:
        given = {field.alias or name: getattr(params, name) for name, field in type(params).model_fields.items()}
        return self.call(**given, **({self.context: context} if self.context else {}))


@cache
def _instance(made: type) -> Any:  # it has the method execute
    return made()


def _summary(documented: object) -> str:
    return (inspect.getdoc(documented) or "").split("\n")[0]


def _is_required(parameter: inspect.Parameter) -> bool:
    is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not is_open


def _where(name: str, form: _Form, *, heavy: bool = False, quick: bool = False) -> Runs:
    if inspect.iscoroutinefunction(form.written):
        if heavy or quick:
            raise DefinitionError("handler.unsupported", f"handler {name!r} is async, and so neither heavy nor quick")
        return Runs.IN_LOOP
    if heavy and quick:
        raise DefinitionError("handler.unsupported", f"handler {name!r} can't be both heavy and quick")
    return Runs.HEAVILY if heavy else Runs.QUICKLY if quick else Runs.IN_CHILD


def _declare(name: str, form: _Form, queue: str, timeout: timedelta, retry: Retry, runs: Runs) -> Handler:
    try:
        hints = get_type_hints(form.written)
        parameters = list(inspect.signature(form.written).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        raise DefinitionError(
            "handler.signature",
            f"handler {name!r}: {error}",
            remedy="A handler is a function or a class, and all that its annotations name is there when it is loaded.",
        ) from error
    parameters = parameters[form.is_method :]
    result = _model(hints.get("return"))
    if spread := _spread(name, form, parameters, hints):
        return Handler(name, spread[0], ("params", "ctx"), spread[1], queue, timeout, retry, runs, form.summary, result)
    arguments, model = _arguments(name, parameters, hints)
    return Handler(name, form.call, arguments, model, queue, timeout, retry, runs, form.summary, result)


def _spread(
    name: str, form: _Form, parameters: list[inspect.Parameter], hints: Mapping[str, object]
) -> tuple[_Spread, type[BaseModel]] | None:
    """The call and the model of a handler with plain typed parameters; None: it takes its parameters as one."""
    own = [parameter for parameter in parameters if not _is_context(parameter.name, hints.get(parameter.name))]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if not own or any(parameter.kind not in kinds or parameter.name not in hints for parameter in own):
        return None
    if len(own) < len(parameters) - 1 or any(parameter.name in ("params", "parameters") for parameter in own):
        return None
    if len(own) == 1 and _is_whole(hints[own[0].name]):
        return None
    context = next((one.name for one in parameters if one not in own), "")
    return _Spread(form.call, context), _make_model(name, form.written, tuple(one.name for one in own))


@cache
def _make_model(name: str, written: Callable[..., Any], own: tuple[str, ...]) -> type[BaseModel]:
    """The model of parameters that a signature declares: the same each time."""
    types, parameters = get_type_hints(written, include_extras=True), inspect.signature(written).parameters
    defaults = {key: ... if (found := parameters[key].default) is inspect.Parameter.empty else found for key in own}
    # By alias, since a field can't have every name.
    fields: Any = {f"{key}_": (types[key], Field(default, alias=key)) for key, default in defaults.items()}
    return create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields)


def _is_whole(hint: object) -> bool:
    """Whether a parameter of this type holds all parameters of a task."""
    kind = get_origin(hint) or hint
    return hint in (Any, object) or (isinstance(kind, type) and issubclass(kind, BaseModel | Mapping))


def _arguments(
    name: str, parameters: list[inspect.Parameter], hints: Mapping[str, object]
) -> tuple[tuple[str, ...], type[BaseModel] | None]:
    names, model = [], None
    for parameter in parameters:
        role = "ctx" if _is_context(parameter.name, hints.get(parameter.name)) else "params"
        if role in names and not _is_required(parameter):
            continue
        names.append(role if parameter.kind in _POSITIONAL else f"*{role}")
        if role == "params":
            model = _model(hints.get(parameter.name))
    if sorted(names) not in (["params"], ["ctx"], ["ctx", "params"]):
        raise DefinitionError(
            "handler.signature",
            f"handler {name!r} takes ({', '.join(parameter.name for parameter in parameters)})",
            remedy="A handler takes (params), (params, ctx), (ctx), or parameters that all have types.",
        )
    return tuple(names), model


def _is_context(name: str, hint: object) -> bool:
    """By the annotation, or by the name if there is none."""
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, Context | BaseModel | Mapping):
        return issubclass(kind, Context)
    return name in ("ctx", "context")


def _model(hint: object) -> type[BaseModel] | None:
    return hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None


def _schema(model: type[BaseModel] | None, mode: Literal["validation", "serialization"], *, by_alias: bool) -> Json:
    try:
        return None if model is None else model.model_json_schema(by_alias=by_alias, mode=mode)
    except PydanticInvalidForJsonSchema:
        return None
