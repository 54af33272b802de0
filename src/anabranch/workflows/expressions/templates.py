"""Templates: JSON values of a definition whose text may hold `{{ … }}`."""

from dataclasses import dataclass
from functools import lru_cache

from anabranch.canonical import MAX_DEPTH, Json
from anabranch.workflows.expressions.parser import parse_braces
from anabranch.workflows.expressions.syntax import Expression, ExpressionError

__all__ = ["Fields", "Fixed", "Hole", "Items", "Part", "Template", "Text", "Where", "find_mistakes", "read_template"]

Where = tuple[str | int, ...]
MAX_EXPRESSIONS = 100  # in one text
MAX_KEPT_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value without expressions; it is handed out as it is, never copied."""

    value: Json


@dataclass(frozen=True, slots=True)
class Hole:
    """An expression alone, which keeps its type (G6)."""

    expression: Expression
    where: Where


@dataclass(frozen=True, slots=True)
class Text:
    """Text around expressions, which makes them text."""

    pieces: tuple[str | Expression, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Items:
    """A list with an expression somewhere inside."""

    parts: tuple["Part", ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with an expression somewhere inside."""

    parts: tuple[tuple[str, "Part"], ...]


Part = Fixed | Hole | Text | Items | Fields


@dataclass(frozen=True, slots=True)
class Template:
    """A JSON value with its expressions parsed."""

    part: Part


def read_template(value: Json) -> Template:
    """The template that a definition's value spells; the first mistake is raised."""
    reader = _Reader()
    part = reader.read(value, ())
    if reader.mistakes:
        raise reader.mistakes[0]
    return Template(part)


def find_mistakes(value: Json) -> list[ExpressionError]:
    """Every mistake for which read_template would refuse the value: the first of each text."""
    reader = _Reader()
    reader.read(value, ())
    return reader.mistakes


class _Reader:
    """Reads on after a mistake, and keeps it."""

    def __init__(self) -> None:
        self.mistakes: list[ExpressionError] = []

    def read(self, value: Json, where: Where) -> Part:
        if isinstance(value, str):
            return self._text(value, where) if "{{" in value else Fixed(value)
        if not isinstance(value, list | dict):
            return Fixed(value)
        if len(where) >= MAX_DEPTH:
            self._keep(ExpressionError(f"the value is nested deeper than {MAX_DEPTH} levels"), where)
            return Fixed(None)
        return self._items(value, where) if isinstance(value, list) else self._fields(value, where)

    def _items(self, value: list[Json], where: Where) -> Part:
        parts = tuple(self.read(item, (*where, index)) for index, item in enumerate(value))
        return Fixed(value) if all(isinstance(part, Fixed) for part in parts) else Items(parts)

    def _fields(self, value: dict[str, Json], where: Where) -> Part:
        for key in value:
            if "{{" in key:
                self._keep(ExpressionError("a key can't hold an expression", key.index("{{")), (*where, key))
        parts = tuple((key, self.read(item, (*where, key))) for key, item in value.items())
        return Fixed(value) if all(isinstance(part, Fixed) for _, part in parts) else Fields(parts)

    def _text(self, text: str, where: Where) -> Part:
        try:
            pieces = _split_once(text) if len(text) <= MAX_KEPT_CHARACTERS else _split(text)
        except ExpressionError as mistake:
            self._keep(mistake, where)
            return Fixed(None)
        if len(pieces) == 1 and not isinstance(pieces[0], str):
            return Hole(pieces[0], where)
        return Text(pieces, where)

    def _keep(self, mistake: ExpressionError, where: Where) -> None:
        mistake.where = where
        self.mistakes.append(mistake)


@lru_cache(maxsize=1024)
def _split_once(text: str) -> tuple[str | Expression, ...]:
    """The pieces of a text, which each check of a definition asks for; mistakes are not kept."""
    return _split(text)


def _split(text: str) -> tuple[str | Expression, ...]:
    pieces: list[str | Expression] = []
    position = 0
    while (opening := text.find("{{", position)) >= 0:
        if opening > position:
            pieces.append(text[position:opening])
        if len(pieces) > 2 * MAX_EXPRESSIONS:
            raise ExpressionError(f"the text has more than {MAX_EXPRESSIONS} expressions", opening)
        expression, position = parse_braces(text, opening)
        pieces.append(expression)
    if position < len(text):
        pieces.append(text[position:])
    return tuple(pieces)
