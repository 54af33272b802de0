"""Conditions: a whole expression, or the short form that a branch says of its subject."""

import re
from dataclasses import dataclass

from anabranch.canonical import Json
from anabranch.workflows.expressions.parser import parse_tokens
from anabranch.workflows.expressions.syntax import (
    NODE_ROOTS,
    OPERATORS,
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    ExpressionError,
    ListOf,
    Subject,
)
from anabranch.workflows.expressions.tokens import tokenize

__all__ = ["Condition", "parse_condition"]

_OPENING = re.compile(r"\s*+\{\{")
_BARE = re.compile(rf"(?!(?:{'|'.join(NODE_ROOTS)})[.\[])\w[\w.:/+-]*+")


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that must be true or false; `about_subject` says that it speaks of a subject."""

    expression: Expression
    about_subject: bool = False


def parse_condition(given: Json, has_subject: bool) -> Condition:
    """The condition that a text or a bare value spells; a literal means equality with the subject."""
    if isinstance(given, list | dict):
        noun = "an array" if isinstance(given, list) else "an object"
        raise ExpressionError(f"a condition is text, a number, true, false or null, not {noun}")
    if not isinstance(given, str):
        return _equals(Constant(given)) if has_subject else Condition(Constant(given))
    is_word = has_subject and _BARE.fullmatch(given.strip()) is not None
    try:
        found = _read(given, has_subject)
    except ExpressionError:
        if is_word:
            return _equals(Constant(given.strip()))
        raise
    # A word with a sign in it is no sum: index-1, 10//12.
    return _equals(Constant(given.strip())) if is_word and isinstance(found.expression, Arithmetic) else found


def _read(text: str, has_subject: bool) -> Condition:
    opening = _OPENING.match(text)
    tokens = tokenize(text, opening.end(), braces=True) if opening else tokenize(text)
    if opening and text[tokens[-1].offset + 2 :].strip():
        hint = "Put the whole condition inside one pair of {{ }}, or leave the braces out."
        raise ExpressionError("text follows the braces of a condition", tokens[-1].offset + 2, hint)
    short = has_subject and tokens[0].text in OPERATORS
    expression = parse_tokens(tokens, subject=short)
    if has_subject and _is_literal(expression):
        return _equals(expression)
    return Condition(expression, about_subject=short)


def _equals(literal: Expression) -> Condition:
    return Condition(Comparison("==", Subject(), literal), about_subject=True)


def _is_literal(expression: Expression) -> bool:
    if isinstance(expression, ListOf):
        return all(map(_is_literal, expression.items))
    return isinstance(expression, Constant)
