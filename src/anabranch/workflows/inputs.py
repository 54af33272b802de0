"""The inputs a workflow declares, and the check every job's parameters pass before the job exists (G9)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from anabranch.canonical import Json, encode
from anabranch.errors import DefinitionError, InputError
from anabranch.storage.addresses import can_be_shown, parse_address
from anabranch.workflows.mistakes import article

__all__ = [
    "FORMATS",
    "Input",
    "InputType",
    "check_inputs",
    "find_value_mistakes",
    "fits_type",
    "inputs_schema",
    "read_input",
]

InputType = Literal["string", "integer", "number", "boolean", "array", "object", "any"]

_TYPES: dict[InputType, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "any": (object,),
}
_SPELLINGS: dict[str, InputType] = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    **{name: name for name in _TYPES},
}
_KEYS = {"type", "required", "default", "min", "max", "choices", "enum", "format", "description"}


@dataclass(frozen=True)
class Input:
    """One declared input; `minimum` and `maximum` bound a number's value, or the length of text and arrays."""

    type: InputType = "any"
    required: bool = False
    has_default: bool = False
    default: Json = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Json, ...] = ()
    format: str = ""
    description: str = ""


def read_input(name: str, given: Mapping[str, object]) -> Input:
    """An input as declarations write it: `{"type": "int", "min": 1, "default": 3}`."""
    if unknown := set(given) - _KEYS:
        raise DefinitionError(
            "workflow.input",
            f"input {name!r} has unknown keys {sorted(unknown)}",
            remedy=f"Use {', '.join(sorted(_KEYS))}.",
        )
    kind = _SPELLINGS.get(str(given.get("type", "any")))
    if kind is None:
        raise DefinitionError(
            "workflow.input",
            f"input {name!r} has the unknown type {given['type']!r}",
            remedy="Use " + ", ".join(_TYPES),
        )
    choices, required = given.get("choices", given.get("enum", ())), given.get("required", False)
    if not isinstance(required, bool):
        raise DefinitionError("workflow.input", f"input {name!r}: required is true or false, not {required!r}")
    if not isinstance(choices, list | tuple):
        raise DefinitionError("workflow.input", f"input {name!r}: choices are a list, not {choices!r}")
    declared = Input(
        type=kind,
        required=required,
        has_default="default" in given,
        default=given.get("default"),  # type: ignore[arg-type]  # checked on the next lines
        minimum=_bound(name, given.get("min")),
        maximum=_bound(name, given.get("max")),
        choices=tuple(choices),
        format=_format(name, kind, given.get("format")),
        description=str(given.get("description", "")),
    )
    _check_declaration(name, declared)
    return declared


def check_inputs(declared: Mapping[str, Input], given: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters with defaults applied; every mistake is reported at once."""
    mistakes = [f"{name} is not an input" for name in given if name not in declared]
    checked: dict[str, Json] = {}
    for name, wanted in declared.items():
        if name in given:
            checked[name] = given[name]
            mistakes += [f"{name} {mistake}" for mistake in find_value_mistakes(wanted, given[name])]
        elif wanted.has_default:
            checked[name] = wanted.default
        elif wanted.required:
            mistakes.append(f"{name} is required")
    if mistakes:
        raise InputError("job.parameters", "; ".join(mistakes), remedy=_remedy(declared))
    return checked


def inputs_schema(declared: Mapping[str, Input]) -> dict[str, Json]:
    """The JSON Schema of a workflow's inputs."""
    return {
        "type": "object",
        "properties": {name: _schema(wanted) for name, wanted in declared.items()},
        "required": [name for name, wanted in declared.items() if wanted.required and not wanted.has_default],
        "additionalProperties": False,
    }


def fits_type(wanted: Input, kind: str) -> bool:
    """Whether a value of this type may be right; a number may turn out to be an integer."""
    numbers = {"integer", "number"}
    return "any" in (kind, wanted.type) or kind == wanted.type or {kind, wanted.type} == numbers


def _bound(name: str, value: object) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise DefinitionError("workflow.input", f"input {name!r}: min and max are numbers, not {value!r}")
    return value


def _format(name: str, kind: InputType, given: object) -> str:
    if given is not None and (given not in FORMATS or kind != "string"):
        raise DefinitionError(
            "workflow.input",
            f"input {name!r}: {given!r} is no format of {article(kind)}",
            remedy=f"A string may have the format {' or '.join(FORMATS)}.",
        )
    return str(given or "")


def _find_address_mistake(text: str) -> str | None:
    try:
        parse_address(text)
    except InputError as error:
        return f"must be an address: {error.message}. {error.remedy}"
    return None


def _find_line_mistake(text: str) -> str | None:
    return None if can_be_shown(text) else "must be one line, without characters that can't be shown"


FORMATS: Mapping[str, Callable[[str], str | None]] = {"address": _find_address_mistake, "line": _find_line_mistake}


def _check_declaration(name: str, declared: Input) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise DefinitionError("workflow.input", f"{name!r} can't be an input's name", remedy="Use letters, digits, _.")
    try:
        encode([declared.default, *declared.choices])
    except ValueError as error:
        raise DefinitionError("workflow.input", f"input {name!r}: {error}") from error
    if (
        declared.has_default
        and declared.default is not None
        and (found := find_value_mistakes(declared, declared.default))
    ):
        raise DefinitionError("workflow.input", f"the default of input {name!r} {found[0]}")


def find_value_mistakes(wanted: Input, value: Json) -> list[str]:
    """What is wrong with a value of an input, each as the end of a sentence."""
    right = isinstance(value, _TYPES[wanted.type]) and (
        not isinstance(value, bool) or wanted.type in ("boolean", "any")
    )
    if not right:
        return [f"must be {article(wanted.type)}, not {article(_type_of(value))}"]
    found = []
    size = value if isinstance(value, int | float) else len(value) if isinstance(value, str | list) else None
    noun = "" if isinstance(value, int | float) else " long"
    if size is not None and wanted.minimum is not None and size < wanted.minimum:
        found.append(f"must be at least {wanted.minimum:g}{noun}, not {size}")
    if size is not None and wanted.maximum is not None and size > wanted.maximum:
        found.append(f"must be at most {wanted.maximum:g}{noun}, not {size}")
    if wanted.choices and value not in wanted.choices:
        found.append(f"must be one of {', '.join(map(repr, wanted.choices))}")
    if wanted.format and isinstance(value, str) and (mistake := FORMATS[wanted.format](value)):
        found.append(mistake)
    return found


def _type_of(value: Json) -> str:
    if value is None:
        return "null"
    return "boolean" if isinstance(value, bool) else _SPELLINGS.get(type(value).__name__, type(value).__name__)


def _remedy(declared: Mapping[str, Input]) -> str:
    return f"The inputs are: {', '.join(declared) or 'none'}."


def _schema(wanted: Input) -> dict[str, Json]:
    schema: dict[str, Json] = {} if wanted.type == "any" else {"type": wanted.type}
    low, high = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}.get(
        wanted.type, ("minimum", "maximum")
    )
    for key, value in ((low, wanted.minimum), (high, wanted.maximum)):
        if value is not None:
            schema[key] = value
    if wanted.choices:
        schema["enum"] = list(wanted.choices)
    if wanted.format:
        schema["format"] = wanted.format
    if wanted.has_default:
        schema["default"] = wanted.default
    if wanted.description:
        schema["description"] = wanted.description
    return schema
