"""The inputs a workflow declares, and the check every job's parameters pass before the job exists (G9)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AliasChoices, PlainSerializer, StrictBool, ValidationInfo, model_validator
from pydantic.dataclasses import dataclass
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails

from anabranch.canonical import Json, JsonObject, encode
from anabranch.errors import DefinitionError, InputError
from anabranch.storage.addresses import can_be_shown, parse_address
from anabranch.workflows.mistakes import MAX_MISTAKES, article, guess, nearest, refuse, said_by_model, show
from anabranch.workflows.reading import read
from anabranch.workflows.rules import DECLARED, FILLED, Check, Model, declared, declared_values, filled
from anabranch.workflows.values import read_any

__all__ = [
    "FORMATS",
    "Input",
    "InputType",
    "InvalidParameters",
    "ParameterMistake",
    "check_inputs",
    "declare_input",
    "find_input_mistakes",
    "find_value_mistakes",
    "fits_type",
    "inputs_schema",
    "read_answer",
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


class ParameterMistake(NamedTuple):
    """What is wrong with a job's parameter, as the end of a sentence; without a name, with several together."""

    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.name} {self.message}".strip()

    @classmethod
    def of_model(cls, found: ErrorDetails, *at: str | int) -> "ParameterMistake":
        """What a pydantic model says of the value at a place."""
        known = {"missing": "is required", "extra_forbidden": "is not an input"}
        said = said_by_model(found)
        return cls(".".join(map(str, at)), known.get(found["type"], f"is refused: {said}") if at else said)


LookFurther = Callable[[JsonObject, AbstractSet[str]], Iterable[ParameterMistake]]


class InvalidParameters(InputError):
    """Parameters that a workflow refuses, with every mistake in them."""

    def __init__(self, mistakes: Sequence[ParameterMistake], *, remedy: str = "") -> None:
        super().__init__("job.parameters", "; ".join(map(str, mistakes)), remedy=remedy)
        self.mistakes = tuple(mistakes)


def _find_address_mistake(text: str) -> str | None:
    try:
        parse_address(text)
    except InputError as error:
        return f"must be an address: {error.message}. {error.remedy}"
    return None


def _find_line_mistake(text: str) -> str | None:
    return None if can_be_shown(text) else "must be one line, without characters that can't be shown"


FORMATS: Mapping[str, Callable[[str], str | None]] = {"address": _find_address_mistake, "line": _find_line_mistake}


def _read_type(value: Any) -> InputType:
    if not isinstance(value, str):
        raise refuse(f"{{key}} is text, not {show(value)}")
    if value not in _SPELLINGS:
        raise refuse(f"{{key}} is one of {', '.join(_TYPES)}, not {show(value)}", nearest(value, list(_TYPES)))
    return _SPELLINGS[value]


def _read_bound(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(f"{{key}} is a number, not {show(value)}")
    return value


def _read_choices(value: Any) -> Any:
    if not isinstance(value, list | tuple) or not value:
        raise refuse(f"{{key}} is a list of values, not {show(value) if value else 'an empty one'}")
    return value


def _read_format(value: Any) -> Any:
    if value not in tuple(FORMATS):
        hint = nearest(value, list(FORMATS)) if isinstance(value, str) else ""
        raise refuse(f"the format of an input is {' or '.join(FORMATS)}, not {show(value)}", hint)
    return value


Bound = Annotated[
    int | float | None,
    Check(_read_bound, {"type": "number"}),
    PlainSerializer(float, when_used="unless-none"),  # as pinned definitions have it
]


@dataclass(frozen=True)
class Input(Model):
    """What a job may be given. `min` and `max` bound a number's value, or the length of text and arrays."""

    nullable: ClassVar[tuple[str, ...]] = ("default",)

    type: Annotated[InputType, Check(_read_type, {"enum": [*_SPELLINGS]})] = declared("any", "What it may be.")
    required: StrictBool = declared(False, "Whether a job must give it.")
    has_default: SkipJsonSchema[bool] = filled("has_default", False)
    default: Annotated[Json, Check(read_any, {})] = declared(None, "Its value where a job gives none.")
    minimum: Bound = declared(None, "The least number, or the least length of text or an array.", "min")
    maximum: Bound = declared(None, "The greatest number, or the greatest length of text or an array.", "max")
    choices: Annotated[tuple[Json, ...], Check(_read_choices, {"type": "array", "minItems": 1})] = declared(
        (), "The values it may have; enum is the same.", AliasChoices("choices", "enum")
    )
    format: Annotated[str, Check(_read_format, {"enum": [*FORMATS]})] = declared(
        "", "What a string is: an address of storage, or one line of text that can be shown."
    )
    description: str = declared("", "What it is, in a sentence.")

    @model_validator(mode="before")
    @classmethod
    def _note_default(cls, given: Any, info: ValidationInfo) -> Any:  # whatever is validated
        if info.context is not DECLARED or not isinstance(given, dict):
            return given
        if given.get("choices") is not None and given.get("enum") is not None:
            raise refuse("choices and enum are the same thing", "Keep one of them.", "enum", of_value=False)
        return {**given, f"{FILLED}has_default": "default" in given}

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> "Input":
        if info.context is DECLARED:
            self._check_bounds()
            if self.format and self.type != "string":
                raise refuse("only a string has a format", "Write type: string.", "format", of_value=False)
            for number, value in enumerate(self.choices):
                self._check_value(replace(self, choices=()), value, "this choice", "choices", number)
            if self.default is not None:
                self._check_value(self, self.default, "the default", "default")
        return self

    def _check_bounds(self) -> None:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise refuse("min is more than max", "", "min")
        for key, bound in (("min", self.minimum), ("max", self.maximum)):
            if bound is not None and self.type in ("boolean", "object"):
                hint = "min and max bound numbers, and the length of text and arrays."
                raise refuse(f"{article(self.type)} has no {key}", hint, key, of_value=False)

    def _check_value(self, wanted: "Input", value: Json, what: str, *at: str | int) -> None:
        try:
            encode(value)
        except ValueError as error:
            raise refuse(f"{what} can't be stored: {error}", "", *at) from error
        if mistakes := find_value_mistakes(wanted, value):
            raise refuse(f"{what} {mistakes[0]}", "", *at)


def read_input(name: str, given: Mapping[str, object]) -> Input:
    """An input as declarations write it: `{"type": "int", "min": 1, "default": 3}`."""
    found = read(Input, given, "an input", ("inputs", name))
    if found.mistakes or found.value is None:
        said = "; ".join(f"{mistake.message}. {mistake.hint}".strip(". ") for mistake in found.mistakes)
        raise DefinitionError("workflow.input", f"input {name!r}: {said}")
    return found.value


def read_answer(value: Any) -> dict[str, Any]:
    """The fields of an answer; one of which nothing is said may be anything."""
    if not isinstance(value, dict):
        raise refuse(f"{{key}} is a mapping, not {show(value)}", "Write answer: {approved: {type: boolean}}.")
    return {name: {} if field is None else field for name, field in value.items()}


def declare_input(wanted: Input) -> JsonObject:
    """An input as files write it."""
    return {**declared_values(wanted), **({"default": wanted.default} if wanted.has_default else {})}


def check_inputs(
    declared: Mapping[str, Input], given: Mapping[str, Json], look_further: LookFurther = lambda _, __: ()
) -> JsonObject:
    """The parameters with defaults applied; every mistake is reported at once.

    `look_further` is given these parameters and the names of the wrong ones, and returns further mistakes.
    """
    checked, mistakes = find_input_mistakes(declared, given, "an input")
    mistakes += look_further(checked, {mistake.name for mistake in mistakes})
    if mistakes:
        raise InvalidParameters(mistakes, remedy=_remedy(declared))
    return checked


def find_input_mistakes(
    declared: Mapping[str, Input], given: Mapping[str, Json], what: str
) -> tuple[JsonObject, list[ParameterMistake]]:
    """The values with defaults applied, and what is wrong with them; `what` is what one that is declared is."""
    unknown = [name for name in given if name not in declared]
    mistakes = [
        ParameterMistake(name, f"is not {what}; did you mean {close!r}?" if close else f"is not {what}")
        for name in unknown[:MAX_MISTAKES]
        for close in [guess(name, list(declared))]
    ]
    if more := unknown[MAX_MISTAKES:]:
        mistakes.append(ParameterMistake("", f"{len(more):,} more names are given, and none of them is {what}"))
    checked: JsonObject = {}
    for name, wanted in declared.items():
        if name in given:
            checked[name] = given[name]
            mistakes += [ParameterMistake(name, mistake) for mistake in find_value_mistakes(wanted, given[name])]
        elif wanted.has_default:
            checked[name] = wanted.default
        elif wanted.required:
            mistakes.append(ParameterMistake(name, "is required"))
    return checked, mistakes


def inputs_schema(declared: Mapping[str, Input]) -> JsonObject:
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


def _schema(wanted: Input) -> JsonObject:
    schema: JsonObject = {} if wanted.type == "any" else {"type": wanted.type}
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
