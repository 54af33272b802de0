"""The parameters of a workflow function become the inputs of its workflow."""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from anabranch.canonical import Json, JsonObject, encode
from anabranch.workflows.inputs import Input, declare_input
from anabranch.workflows.python.places import Place, TraceError

__all__ = ["read_fields", "read_signature"]

_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    Sequence: "array",
    dict: "object",
    Mapping: "object",
}
_BOUNDS = {"ge": "min", "le": "max", "min_length": "min", "max_length": "max"}  # of annotations and of inputs


def read_signature(function: Callable[..., Any], place: Place) -> dict[str, dict[str, Json]]:
    """Each parameter as a file declares an input."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise TraceError(
            str(error), "All that annotations name must be there when the module is loaded.", place
        ) from None
    inputs = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TraceError(f"*{name} can't be an input", "Name every input, or take a list or a dict.", place)
        inputs[name] = _input(name, hints.get(name, Any), parameter, place)
    return inputs


def read_fields(given: Mapping[str, Any], place: Place) -> JsonObject:  # annotations, inputs, or their keys
    """Each field of an answer as a file declares it; one that may be None can be left out."""
    fields: JsonObject = {}
    for name, hint in given.items():
        if isinstance(hint, Input | dict):
            fields[name] = declare_input(hint) if isinstance(hint, Input) else hint
            continue
        try:
            said, may_be_none = _declare(hint)
        except ValueError as error:
            raise TraceError(f"the field {name!r}: {error}", "See the types of inputs.", place) from None
        fields[name] = said if may_be_none else {**said, "required": True}
    return fields


def _input(name: str, hint: Any, parameter: inspect.Parameter, place: Place) -> JsonObject:  # hint: any annotation
    try:
        said, may_be_none = _declare(hint)
    except ValueError as error:
        raise TraceError(f"the parameter {name!r}: {error}", "See the types of inputs.", place) from None
    default = parameter.default
    try:
        encode(None if default is parameter.empty else default)
    except (TypeError, ValueError):
        raise TraceError(f"the default of {name!r} can't be stored", "Give JSON.", place) from None
    if default is not parameter.empty and default is not None:
        return {**said, "default": list(default) if isinstance(default, tuple) else default}
    return said if may_be_none or default is None else {**said, "required": True}


def _declare(hint: Any) -> tuple[dict[str, Json], bool]:
    """The keys of an input, and whether it may be None."""
    if hint in (Any, object):
        return {}, False
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *metadata = get_args(hint)
        said, may_be_none = _declare(inner)
        for part in metadata:
            said |= _constrain(part)
        return said, may_be_none
    if origin in (Union, types.UnionType):
        others = [part for part in get_args(hint) if part is not type(None)]
        if len(others) == 1 and len(others) < len(get_args(hint)):
            return _declare(others[0])[0], True
        return ({"type": "number"}, False) if set(others) == {int, float} else ({}, type(None) in get_args(hint))
    if origin is Literal:
        kinds = {_TYPES.get(type(value), "any") for value in get_args(hint)}
        return {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "choices": list(get_args(hint))}, False
    found = next((name for kind, name in _TYPES.items() if (origin or hint) is kind), None)
    if found is None:
        raise ValueError(f"{hint!r} is no type of an input")
    return {"type": found}, False


def _constrain(part: Any) -> JsonObject:  # whatever an annotation holds
    if isinstance(part, Input):
        return declare_input(part)
    if isinstance(part, FieldInfo):
        said: JsonObject = {} if part.description is None else {"description": part.description}
        for inner in part.metadata:
            said |= _constrain(inner)
        return said
    if bounds := {key: getattr(part, name) for name, key in _BOUNDS.items() if hasattr(part, name)}:
        return bounds
    raise ValueError(f"an input can't have {part!r}")
