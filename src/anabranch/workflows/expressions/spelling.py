"""From a tree back to its text: what is parsed again gives the same tree."""

import json

from anabranch.workflows.expressions import syntax

__all__ = ["spell", "spell_short"]

_OR, _AND, _NOT, _SUM, _PRODUCT, _OPERAND = range(6)  # how closely each binds
_LEVELS = {"or": _OR, "and": _AND}


def spell(expression: syntax.Expression) -> str:
    """The text of an expression, as one would write it between braces."""
    return _spell(expression, _OR)


def spell_short(comparison: syntax.Comparison) -> str:
    """A comparison without its left side, as a branch says it of the subject."""
    return " ".join(_parts(comparison)[1:])


def _spell(node: syntax.Expression, level: int) -> str:
    text, own = _text(node)
    return f"({text})" if own < level else text


def _text(node: syntax.Expression) -> tuple[str, int]:  # noqa: C901  # a case for each kind of node
    match node:
        case syntax.Constant():
            return _constant(node), _OPERAND
        case syntax.Lookup():
            return str(
                syntax.Reference(node.reference.root, node.reference.path) if node.guarded else node.reference
            ), _OPERAND
        case syntax.ListOf():
            return f"[{_listed(node.items)}]", _OPERAND
        case syntax.Call():
            return f"{node.function}({_listed(node.arguments)})", _OPERAND
        case syntax.Format():
            text = "".join(f"{{{piece}}}" if isinstance(piece, int) else piece for piece in node.pieces)
            return f"format({_listed((syntax.Constant(text), *node.arguments))})", _OPERAND
        case syntax.Comparison():
            return " ".join(_parts(node)), _NOT
        case syntax.Arithmetic():
            return _arithmetic(node)
        case syntax.Junction():
            own = _LEVELS[node.word]
            return f" {node.word} ".join(_spell(operand, own + 1) for operand in node.operands), own
        case syntax.Negation():
            return f"not {_spell(node.operand, _NOT)}", _NOT
        case syntax.Subject():
            return "", _OPERAND


def _arithmetic(node: syntax.Arithmetic) -> tuple[str, int]:
    own = _SUM if node.signs[0] in syntax.SIGNS[0] else _PRODUCT
    first, *others = (_spell(operand, own + 1) for operand in node.operands)
    return first + "".join(f" {sign} {other}" for sign, other in zip(node.signs, others, strict=True)), own


def _parts(node: syntax.Comparison) -> list[str]:
    right = () if node.right is None else (_spell(node.right, _SUM),)
    return [_spell(node.left, _SUM), node.operator, *right]


def _listed(items: tuple[syntax.Expression, ...]) -> str:
    return ", ".join(map(spell, items))


def _constant(node: syntax.Constant) -> str:
    text = json.dumps(node.value, ensure_ascii=False)
    if not isinstance(node.value, str):
        return text
    inner = text[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"'{inner}'"
