"""The base of the models, and rules for what files, stages and handlers declare.

A rule holds for a declaration only: what was stored before the rule existed is still read (E16).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)
from pydantic.dataclasses import dataclass as model_dataclass
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from anabranch.canonical import Json
from anabranch.workflows.mistakes import refuse, show

__all__ = [
    "DECLARED",
    "FILLED",
    "MAX_ATTEMPTS",
    "MAX_SECONDS",
    "MAX_TASKS",
    "MAX_WHOLE",
    "PRIORITIES",
    "Check",
    "Model",
    "Rule",
    "Seconds",
    "Whole",
    "declared",
    "declared_keys",
    "declared_values",
    "filled",
    "find_number_mistakes",
]

FILLED: Final = "\0"  # begins the aliases of fields that no declaration holds: no file can hold this character
DECLARED: Final = "declared"  # the context of a validation that applies rules
PRIORITIES = (1, 9)
MAX_ATTEMPTS = 1000
MAX_SECONDS = 10**9  # thirty years: it can be added to any date
MAX_TASKS = 1_000_000  # of one node
MAX_WHOLE = 2**31 - 1
_KEYS: dict[type, dict[str, str]] = {}  # of each model, found once


@model_dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True))
class Model:
    """The base of every model: in a declaration, a key without a value is as if it were left out.

    Fields have the names of the stored text that jobs are pinned to (E16), and the keys of declarations as aliases.
    """

    assumed: ClassVar[Mapping[str, Json]] = {}  # what it means to leave a key out of a declaration
    nullable: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, given: Any, info: ValidationInfo) -> Any:  # whatever is validated
        if not isinstance(given, dict):
            return given
        if info.context is not DECLARED:  # stored: which model it is of is said beside its fields
            return {key: value for key, value in given.items() if key != "kind"}
        empty = [key for key in declared_keys(cls) if key not in cls.nullable and given.get(key, ...) is None]
        return {**cls.assumed, **{key: value for key, value in given.items() if key not in empty}}


def declared(default: object, description: str, alias: str | AliasChoices | None = None, **more: Any) -> Any:
    """A field that declarations may hold, under its alias or its name; the arguments are those of pydantic's Field."""
    return Field(default=default, description=description, validation_alias=alias, **more)


def filled(name: str, default: object) -> Any:  # as pydantic's Field
    """A field that no declaration holds: the reader fills it in."""
    return Field(default, validation_alias=f"{FILLED}{name}")


class Rule(ABC):
    """The annotation of a field whose declared value is read by `read`, and described by `schema`."""

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, Json]:
        """The declared value as JSON Schema."""

    @abstractmethod
    def read(self, value: Any) -> Any:  # any JSON in, what the field holds out
        """The field's value, or an error that says what is wrong."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def apply(value: Any, info: ValidationInfo) -> Any:
            return self.read(value) if info.context is DECLARED and value is not None else value

        return core_schema.with_info_before_validator_function(apply, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return dict(self.schema)


class Check(Rule):
    """A rule that is a function."""

    def __init__(self, read: Callable[[Any], Any], schema: Mapping[str, Json]) -> None:
        self._read = read
        self._schema = schema

    @property
    def schema(self) -> Mapping[str, Json]:
        """As JSON Schema."""
        return self._schema

    def read(self, value: Any) -> Any:  # as of any rule
        """What the function makes of it."""
        return self._read(value)


class _Number(Rule):
    @abstractmethod
    def find_mistake(self, value: Any) -> str:
        """What is wrong with a number, as the end of a sentence."""

    def read(self, value: Any) -> Any:
        if mistake := self.find_mistake(value):
            raise refuse(f"{{key}} {mistake}, not {show(value)}")
        return value


@dataclass(frozen=True)
class Whole(_Number):
    """A whole number within bounds."""

    low: int = 1
    high: int = MAX_WHOLE

    @property
    def schema(self) -> Mapping[str, Json]:
        """As JSON Schema."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def find_mistake(self, value: Any) -> str:
        """What is wrong with it; nothing where it is whole and within bounds."""
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return ""
        is_bounded = self.high < MAX_WHOLE or _is_above(value, self.high)
        return "is a whole number " + (
            f"from {self.low:,} to {self.high:,}" if is_bounded else f"of {self.low} or more"
        )


@dataclass(frozen=True)
class Seconds(_Number):
    """A time, declared as a number of seconds."""

    zero: bool = False

    @property
    def schema(self) -> Mapping[str, Json]:
        """As JSON Schema."""
        return {"type": "number", "minimum" if self.zero else "exclusiveMinimum": 0, "maximum": MAX_SECONDS}

    def read(self, value: Any) -> timedelta:
        """The time."""
        return timedelta(seconds=super().read(value))

    def find_mistake(self, value: Any) -> str:
        """What is wrong with it; nothing where it is a number within bounds."""
        value = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS:
            time = timedelta(seconds=value)
            if time > timedelta(0) or (self.zero and value == 0):
                return ""
        low = "of 0 or more" if self.zero else "above 0"
        return "is a number of seconds " + (f"up to {MAX_SECONDS:,}" if _is_above(value, MAX_SECONDS) else low)


def declared_keys(model: type) -> dict[str, str]:
    """The keys that a declaration of a model may have, and the fields that they fill."""
    if model not in _KEYS:
        _KEYS[model] = _find_keys(model)
    return _KEYS[model]


def _find_keys(model: type) -> dict[str, str]:
    fields = model.__pydantic_fields__  # type: ignore[attr-defined]  # by pydantic
    named = {name: field.validation_alias or name for name, field in fields.items()}
    choices = ((alias.choices if isinstance(alias, AliasChoices) else [alias], name) for name, alias in named.items())
    return {str(key): name for keys, name in choices for key in keys if not str(key).startswith(FILLED)}


def declared_values(model: Model) -> dict[str, Json]:
    """What a model holds but for defaults, under the keys of a declaration."""
    fields = model.__pydantic_fields__  # type: ignore[attr-defined]  # by pydantic
    keys = {name: key for key, name in reversed(declared_keys(type(model)).items())}  # of several, the first
    held = ((keys[name], getattr(model, name), field.default) for name, field in fields.items() if name in keys)
    return {key: _plain(value) for key, value, default in held if value != default}


def _plain(value: Any) -> Json:  # of a field
    if isinstance(value, Model):
        return declared_values(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    return value  # type: ignore[no-any-return]  # JSON


def find_number_mistakes(value: Any, prefix: str = "") -> Iterator[str]:
    """Every number of a model that is out of bounds: of one that Python code made without declaring it."""
    for key, name in declared_keys(type(value)).items():
        held = getattr(value, name)
        if isinstance(held, Model):
            yield from find_number_mistakes(held, f"{prefix}{key}.")
        for rule in value.__pydantic_fields__[name].metadata if held is not None else ():
            if isinstance(rule, _Number) and (mistake := rule.find_mistake(held)):
                yield f"{prefix}{key} {mistake}"


def _is_above(value: object, limit: int) -> bool:
    return isinstance(value, int | float) and value > limit
