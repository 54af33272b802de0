"""What an expression, a condition or a template refers to."""

from collections.abc import Iterator

from anabranch.workflows.expressions.conditions import Condition
from anabranch.workflows.expressions.syntax import Expression, Lookup, Reference, children
from anabranch.workflows.expressions.templates import Fields, Fixed, Hole, Items, Part, Template, Text

__all__ = ["references", "sole_reference"]


def references(x: Expression | Condition | Template) -> frozenset[Reference]:
    """Every reference in it; those inside the first argument of default() are optional."""
    if isinstance(x, Template):
        return frozenset(found for expression in _expressions(x.part) for found in _references(expression))
    return frozenset(_references(x.expression if isinstance(x, Condition) else x))


def sole_reference(template: Template) -> Reference | None:
    """The single reference that a template consists of, or None."""
    part = template.part
    return part.expression.reference if isinstance(part, Hole) and isinstance(part.expression, Lookup) else None


def _references(node: Expression) -> Iterator[Reference]:
    if isinstance(node, Lookup):
        yield node.reference
    for child in children(node):
        yield from _references(child)


def _expressions(part: Part) -> Iterator[Expression]:
    match part:
        case Fixed():
            return
        case Hole():
            yield part.expression
        case Text():
            yield from (piece for piece in part.pieces if not isinstance(piece, str))
        case Items():
            for inner in part.parts:
                yield from _expressions(inner)
        case Fields():
            for _, inner in part.parts:
                yield from _expressions(inner)
