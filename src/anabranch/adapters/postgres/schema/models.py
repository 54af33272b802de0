"""Models held against tables: the same fields in the same order, of the same types."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from typing_extensions import TypeAliasType

from anabranch.adapters.postgres.schema.describe import Description, Difference, Field

__all__ = ["models_differ"]

SCALARS: Mapping[object, set[str]] = {
    bool: {"boolean"},
    bytes: {"bytea"},
    date: {"date"},
    datetime: {"timestamp with time zone"},
    Decimal: {"numeric"},
    float: {"real", "double precision"},
    int: {"smallint", "integer", "bigint"},
    str: {"text"},
    timedelta: {"interval"},
    UUID: {"uuid"},
}
ARRAYS = {list, tuple, Sequence}
DOCUMENTS = {Any, dict, list, Mapping, Sequence}


def models_differ(models: Mapping[str, type], description: Description) -> list[Difference]:
    """Where dataclasses differ from the tables or views that they are named with."""
    return [
        difference
        for table, model in models.items()
        for difference in _compare(model, table, description.fields.get(table, ()))
    ]


def _compare(model: type, table: str, columns: Sequence[Field]) -> Iterator[Difference]:
    names = [field.name for field in fields(model)]
    if names != [column.name for column in columns]:
        listed = ", ".join(column.name for column in columns)
        yield Difference("model", f"{model.__name__} of {table}", ", ".join(names), listed or None)
        return
    hints = get_type_hints(model)
    for column in columns:
        if not _fits(hints[column.name], column):
            where = f"{model.__name__}.{column.name} of {table}"
            yield Difference("model", where, _name(hints[column.name]), _spell(column))


def _fits(hint: object, column: Field) -> bool:
    options, optional = _unwrap(hint)
    if column.type in ("json", "jsonb") and not column.is_array:
        # null is a document too, so a column that is never null may still hold it.
        known = any(_shape(option) in DOCUMENTS or is_dataclass(option) for option in options)
        return known and (optional or not column.nullable or Any in options)
    if len(options) != 1 or column.nullable not in (None, optional):
        return False
    if column.is_array:
        return _shape(options[0]) in ARRAYS and _is_scalar(_unwrap(get_args(options[0])[0])[0][0], column)
    return _is_scalar(options[0], column)


def _is_scalar(hint: object, column: Field) -> bool:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [member.value for member in hint] == column.labels
    return column.type in SCALARS.get(hint, set())


def _unwrap(hint: object) -> tuple[list[object], bool]:
    """The types that a hint admits besides None, and whether it admits None."""
    while isinstance(hint, NewType | TypeAliasType):
        hint = hint.__supertype__ if isinstance(hint, NewType) else _value_of(hint)
    if get_origin(hint) not in (Union, UnionType):
        return [hint], False
    options = [option for arg in get_args(hint) for option in _unwrap(arg)[0]]
    return [option for option in options if option is not NoneType], NoneType in options


def _value_of(alias: TypeAliasType) -> object:
    """What an alias stands for; a recursive one is written as text."""
    holder = SimpleNamespace(__annotations__={"value": alias.__value__})
    return get_type_hints(holder, vars(sys.modules[str(alias.__module__)]))["value"]


def _shape(hint: object) -> object:
    return get_origin(hint) or hint


def _spell(column: Field) -> str:
    labels = f" ({', '.join(column.labels)})" if column.labels else ""
    return f"{column.type}{labels}{'[]' * column.is_array}{' not null' * (column.nullable is False)}"


def _name(hint: object) -> str:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"{hint.__name__} ({', '.join(str(member.value) for member in hint)})"
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
