"""What all answers share: they are frozen dataclasses, and are read from JSON by the types of their fields.

They are not pydantic models, because commands would start slower with pydantic imported. FastAPI serializes and
describes dataclasses as well; the docstring under a field becomes its description in the OpenAPI document.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Generic, Literal, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

__all__ = ["Answer", "JsonObject", "JsonValue", "Page", "PageLinks", "answer", "build", "read"]

JsonValue = Any  # JSON of any shape
JsonObject = Mapping[str, JsonValue]
Item = TypeVar("Item")
Kind = TypeVar("Kind")
Built = TypeVar("Built", bound="Answer")
Reader = Callable[[JsonValue], Any]  # makes what the annotation of a field says


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def answer(kind: type[Kind]) -> type[Kind]:
    """Make a frozen dataclass; `Answer` has the methods that would take long to generate for each class."""
    return dataclass(frozen=True, eq=False, repr=False)(kind)


class Answer:
    """An answer of the API, or a part of one."""

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in _fields(self) if one.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    @property
    def raw(self) -> dict[str, JsonValue]:
        """The JSON that this was read from, with the keys that a newer API has added."""
        found: dict[str, JsonValue] | None = vars(self).get("_raw")
        if found is None:  # it was not read
            return {one.metadata.get("alias", one.name): getattr(self, one.name) for one in _fields(self)}
        return found


@answer
class PageLinks(Answer):
    """The paths of a page and of the one after it; null at the end."""

    self: str
    next: str | None


@answer
class Page(Answer, Generic[Item]):
    """A page of a list, and the cursor of the next page; null at the end."""

    items: tuple[Item, ...]
    next: str | None
    links: PageLinks | None = None
    """Where this page and the next are; an older API sends none."""

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)


def build(kind: type[Built], source: object, **given: object) -> Built:
    """An answer whose fields are the source's attributes of the same names, unless they are given."""
    same = {name: getattr(source, name) for name in kind.__match_args__ if name not in given}
    return kind(**same, **given)


def read(kind: type[Kind], raw: JsonValue) -> Kind:
    """Read an answer from JSON; KeyError, TypeError or ValueError if it is none of this kind.

    A newer API may send more keys, and an older one fewer: then a field is None or empty, if its type allows that.
    """
    answer: Kind = _reader(kind)(raw)  # type: ignore[arg-type]  # every class is hashable
    return answer


def _fields(answer: object) -> tuple[Field[Any], ...]:
    return fields(answer)  # type: ignore[arg-type]  # all answers are dataclasses


def _values(answer: object) -> tuple[object, ...]:
    return tuple(getattr(answer, one.name) for one in _fields(answer))


@cache
def _reader(kind: Any) -> Reader:  # a class, a generic alias or a union
    origin, parts = get_origin(kind), get_args(kind)
    if is_dataclass(origin or kind):
        return _answer_reader(origin or kind, parts)
    if kind is datetime:
        return datetime.fromisoformat
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return lambda raw: kind(raw) if raw in kind.__members__.values() else raw
    if origin is Literal or not parts:
        return _keep
    readers = [_reader(part) for part in parts if part not in (Ellipsis, NoneType)]
    if origin in (tuple, list):
        return lambda raw: origin(map(readers[0], raw))
    if all(reader is _keep for reader in readers):
        return _keep
    if origin is Mapping:
        return lambda raw: {name: readers[1](value) for name, value in raw.items()}
    return lambda raw: None if raw is None else readers[0](raw)


def _answer_reader(kind: type[Any], parts: tuple[Any, ...]) -> Reader:  # any dataclass, and its type arguments
    hints = get_type_hints(kind)
    known = []
    for one in fields(kind):
        hint = hints[one.name]
        hint = hint[parts] if getattr(hint, "__parameters__", ()) else hint
        known.append((one.name, one.metadata.get("alias", one.name), hint, _reader(hint)))

    def read_answer(raw: JsonValue) -> Any:  # of the kind
        values = {name: reader(raw[key] if key in raw else _absent(key, hint)) for name, key, hint, reader in known}
        answer = kind(**values)
        vars(answer)["_raw"] = raw
        return answer

    return read_answer


def _absent(key: str, hint: Any) -> JsonValue:  # the annotation of a field
    if hint is Any or NoneType in get_args(hint):
        return None
    if get_origin(hint) in (tuple, Mapping):
        return {}
    raise KeyError(key)


def _keep(raw: JsonValue) -> JsonValue:
    return raw
