"""From a tree back to its text: what is parsed again gives the same tree."""

import json

from anabranch.workflows.expressions.syntax import (
    Call,
    Comparison,
    Constant,
    Expression,
    Format,
    Junction,
    ListOf,
    Lookup,
    Negation,
    Reference,
    Subject,
)

__all__ = ["spell", "spell_short"]

_OR, _AND, _NOT, _OPERAND = range(4)  # how closely each binds
_LEVELS = {"or": _OR, "and": _AND}


def spell(expression: Expression) -> str:
    """The text of an expression, as one would write it between braces."""
    return _spell(expression, _OR)


def spell_short(comparison: Comparison) -> str:
    """A comparison without its left side, as a branch says it of the subject."""
    return " ".join(_parts(comparison)[1:])


def _spell(node: Expression, level: int) -> str:
    text, own = _text(node)
    return f"({text})" if own < level else text


def _text(node: Expression) -> tuple[str, int]:
    match node:
        case Constant():
            return _constant(node), _OPERAND
        case Lookup():
            return str(
                Reference(node.reference.root, node.reference.path) if node.guarded else node.reference
            ), _OPERAND
        case ListOf():
            return f"[{_listed(node.items)}]", _OPERAND
        case Call():
            return f"{node.function}({_listed(node.arguments)})", _OPERAND
        case Format():
            text = "".join(f"{{{piece}}}" if isinstance(piece, int) else piece for piece in node.pieces)
            return f"format({_listed((Constant(text), *node.arguments))})", _OPERAND
        case Comparison():
            return " ".join(_parts(node)), _NOT
        case Junction():
            own = _LEVELS[node.word]
            return f" {node.word} ".join(_spell(operand, own + 1) for operand in node.operands), own
        case Negation():
            return f"not {_spell(node.operand, _NOT)}", _NOT
        case Subject():
            return "", _OPERAND


def _parts(node: Comparison) -> list[str]:
    right = () if node.right is None else (_spell(node.right, _OPERAND),)
    return [_spell(node.left, _OPERAND), node.operator, *right]


def _listed(items: tuple[Expression, ...]) -> str:
    return ", ".join(map(spell, items))


def _constant(node: Constant) -> str:
    text = json.dumps(node.value, ensure_ascii=False)
    if not isinstance(node.value, str):
        return text
    inner = text[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"'{inner}'"
