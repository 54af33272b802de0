"""A declaration is read into its model; what pydantic refuses becomes a mistake in plain words, at its place."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import SchemaValidator

from anabranch.workflows.mistakes import MAX_MISTAKES, Mistake, Path, guess, nearest, quote, show
from anabranch.workflows.rules import DECLARED, FILLED, Model, declared_keys

__all__ = ["Read", "read"]

M = TypeVar("M", bound=Model)


@dataclass
class Read(Generic[M]):
    """A model, as far as it could be read. `refused` are the keys that were wrong, and those that were misspelt."""

    value: M | None
    mistakes: list[Mistake] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)


def read(
    model: type[M],
    given: Mapping[str, Any],  # a declaration
    what: str,
    path: Path = (),
    *,
    beside: Collection[str] = (),
    elsewhere: Callable[[str], str] = lambda _: "",
) -> Read[M]:
    """The model that is declared. What is wrong is left out and noted, so that the rest can be checked further.

    `beside` are keys that the caller has read; `elsewhere` is a hint where a key belongs that the model doesn't have.
    """
    try:
        return Read(_validate(model, given))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    explainer = _Explainer(model, given, what, path, (*declared_keys(model), *beside), elsewhere)
    mistakes = list(explainer.explain(errors))
    refused = {str(error["loc"][0]) for error in errors if error["loc"]} | explainer.misspelt
    try:
        value = _validate(model, {key: held for key, held in given.items() if key not in refused})
    except ValidationError:
        value = None
    return Read(value, mistakes, refused)


def _validate(model: type[M], given: Mapping[str, Any]) -> M:
    validator: SchemaValidator = model.__pydantic_validator__  # type: ignore[attr-defined]  # by pydantic
    validated: M = validator.validate_python(dict(given), by_alias=True, by_name=False, context=DECLARED)
    return validated


class _Explainer:
    """Turns the errors of one declaration into mistakes."""

    def __init__(
        self,
        model: type,
        given: Mapping[str, Any],
        what: str,
        path: Path,
        known: Collection[str],
        elsewhere: Callable[[str], str],
    ) -> None:
        self.model, self.given, self.what, self.path, self.known = model, given, what, path, list(known)
        self.elsewhere = elsewhere
        unknown = [key for key in given if key not in self.known and not key.startswith(FILLED)]
        self.is_misplaced = any(map(elsewhere, unknown))
        guesses = (guess(key, self.known) for key in unknown[:MAX_MISTAKES])
        self.misspelt = {close for close in guesses if close and close not in given}

    def explain(self, errors: list[Any]) -> Iterator[Mistake]:  # pydantic's details
        for error in errors[:MAX_MISTAKES]:
            at = self._locate(error["loc"])
            key = next((str(step) for step in reversed(at) if isinstance(step, str)), "it")
            match error["type"]:
                case "missing":
                    if error["loc"][0] not in self.misspelt and not self.is_misplaced:
                        yield self._mistake(error["loc"], f"{self._owner(error['loc'])} needs {error['loc'][-1]!r}")
                case "unexpected_keyword_argument":
                    yield self._unknown(error["loc"])
                case "mistake":
                    context = error["ctx"]
                    said = context["said"].replace("{key}", key)
                    yield Mistake((*self.path, *at), said, context["hint"], of_value=context["of_value"])
                case _:
                    yield self._wrong(error, at, key)

    def _unknown(self, loc: Path) -> Mistake:
        key, owner = str(loc[-1]), self._owner(loc)
        model = self._model_at(loc[:-1])
        known = self.known if len(loc) == 1 else list(declared_keys(model))
        hint = self.elsewhere(key) if len(loc) == 1 else ""
        hint = hint or nearest(key, known) or f"Known: {', '.join(known)}."
        return self._mistake(loc, f"{owner} has no key {quote(key)}", hint)

    def _wrong(self, error: Any, at: Path, key: str) -> Mistake:
        """A value of the wrong type."""
        subject = f"an item of {key}" if at and isinstance(at[-1], int) else key
        value = error["input"]
        match error["type"]:
            case "string_type":
                wanted, hint = "text", "" if isinstance(value, list | dict) else "Quote it."
            case "bool_type":
                wanted, hint = "true or false", ""
            case "enum" | "literal_error":
                words = re.findall("'([^']*)'", error["ctx"]["expected"])
                wanted, hint = f"one of {', '.join(words)}", nearest(value, words) if isinstance(value, str) else ""
            case "dict_type" | "dataclass_type":
                wanted, hint = "a mapping", self._example(at)
            case "tuple_type" | "list_type":
                wanted, hint = "a list", "Begin each item with '- '."
            case _:
                return Mistake((*self.path, *at), f"{subject}: {error['msg']}", of_value=True)
        return Mistake((*self.path, *at), f"{subject} is {wanted}, not {show(value)}", hint, of_value=True)

    def _mistake(self, loc: Path, message: str, hint: str = "") -> Mistake:
        return Mistake((*self.path, *self._locate(loc[:-1]), loc[-1]), message, hint)

    def _owner(self, loc: Path) -> str:
        """What the last step of a location is a key of."""
        if len(loc) == 1:
            return self.what
        return f"an item of {loc[-3]}" if isinstance(loc[-2], int) else str(loc[-2])

    def _locate(self, loc: Path) -> Path:
        """The steps of a location that are in the declaration: a validator may have put others between them."""
        found: list[str | int] = []
        value: Any = self.given  # a part of the declaration
        for step in loc:
            if step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value)):
                value = value[step]
                found.append(step)
        return tuple(found)

    def _model_at(self, loc: Path) -> type:
        model = self.model
        for step in loc:
            if isinstance(step, str) and step in declared_keys(model):
                held = model.__pydantic_fields__[declared_keys(model)[step]]  # type: ignore[attr-defined]  # by pydantic
                model = next(_models_in(held.annotation), model)
        return model

    def _example(self, at: Path) -> str:
        """A hint with an example of the field that is wrong."""
        keys = declared_keys(model := self._model_at(at[:-1]))
        if not at or at[-1] not in keys:
            return ""
        examples = model.__pydantic_fields__[keys[str(at[-1])]].examples  # type: ignore[attr-defined]  # by pydantic
        return f"Write {at[-1]}: {_flow(examples[0])}." if examples else ""


def _models_in(annotation: Any) -> Iterator[type]:  # of a field
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _flow(value: Any) -> str:  # an example
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(part)}" for key, part in value.items()) + "}"
    return f'"{value}"' if isinstance(value, str) and "{" in value else str(value)
