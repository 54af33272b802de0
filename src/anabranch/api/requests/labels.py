"""Labels of jobs as callers write them: bounded in number, length and characters."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

__all__ = ["LabelPairs", "Labels"]

MAX_LABELS = 16
LABEL_NAME = "[A-Za-z0-9][A-Za-z0-9._/-]{0,62}"
LABEL_VALUE = r"[^\x00-\x1f\x7f]{1,200}"


def _check_label_name(given: str) -> str:
    if not re.fullmatch(LABEL_NAME, given):
        raise PydanticCustomError(
            "label_name",
            "The name of a label has 1 to 63 of the characters A-Z, a-z, 0-9, '.', '_', '/' and '-', and begins with a"
            " letter or a digit",
        )
    return given


def _check_label_value(given: str) -> str:
    if not re.fullmatch(LABEL_VALUE, given):
        raise PydanticCustomError(
            "label_value", "The value of a label has 1 to 200 characters, none of them a control character"
        )
    return given


def _check_label_pair(given: str) -> str:
    name, equals, value = given.partition("=")
    if not equals:
        raise PydanticCustomError("label", "A label is written NAME=VALUE")
    return f"{_check_label_name(name)}={_check_label_value(value)}"


def _refuse_duplicates(given: list[str]) -> list[str]:
    if len({pair.partition("=")[0] for pair in given}) < len(given):
        raise PydanticCustomError("label_twice", "Each label is given once")
    return given


def _described(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def _refuse_many(given: object) -> object:
    if isinstance(given, dict) and len(given) > MAX_LABELS:  # before each of them is checked
        raise PydanticCustomError("too_many", f"A job has at most {MAX_LABELS} labels")
    return given


Labels = Annotated[
    dict[
        Annotated[str, AfterValidator(_check_label_name), _described(LABEL_NAME)],
        Annotated[str, AfterValidator(_check_label_value), _described(LABEL_VALUE)],
    ],
    Field(max_length=MAX_LABELS),
    BeforeValidator(_refuse_many),
]
LabelPairs = Annotated[
    list[Annotated[str, AfterValidator(_check_label_pair), _described(f"{LABEL_NAME}={LABEL_VALUE}")]],
    Field(max_length=MAX_LABELS),
    AfterValidator(_refuse_duplicates),
]
