"""The value of an expression, a condition or a template: total on JSON, bounded, and never evaluated again (G7)."""

import json
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, overload

from anabranch.canonical import Json
from anabranch.workflows.expressions import syntax
from anabranch.workflows.expressions.conditions import Condition
from anabranch.workflows.expressions.syntax import Expression, ExpressionError, Missing, Reference
from anabranch.workflows.expressions.templates import Fields, Fixed, Hole, Items, Part, Template, Text
from anabranch.workflows.expressions.types import judge, kinds_of, require_boolean, require_scalar

__all__ = ["Resolve", "evaluate", "walk"]

Resolve = Callable[[Reference], Json]
_WHOLE = re.compile("[+-]?[0-9]{1,19}")


class _Scope:
    """What one evaluation knows, and how much text and how many items it may still build."""

    __slots__ = ("budget", "items", "resolve", "subject")

    def __init__(self, resolve: Resolve, subject: Json) -> None:
        self.resolve = resolve
        self.subject = subject
        self.budget = syntax.MAX_TEXT
        self.items = syntax.MAX_ITEMS

    def spend(self, characters: int, offset: int) -> None:
        self.budget -= characters
        if self.budget < 0:
            raise ExpressionError(f"it would build more than {syntax.MAX_TEXT:,} characters of text", offset)

    def spend_items(self, count: int, offset: int) -> None:
        self.items -= count
        if self.items < 0:
            raise ExpressionError(f"it would build more than {syntax.MAX_ITEMS:,} items", offset)


@overload
def evaluate(x: Condition, resolve: Resolve, subject: Json = None) -> bool: ...
@overload
def evaluate(x: Expression | Template, resolve: Resolve, subject: Json = None) -> Json: ...
def evaluate(x: Expression | Condition | Template, resolve: Resolve, subject: Json = None) -> Json:
    """Its value; only ExpressionError and Missing are raised. Parts of the data are handed on, not copied."""
    scope = _Scope(resolve, subject)
    if isinstance(x, Template):
        return _fill(x.part, scope)
    if not isinstance(x, Condition):
        return _value(x, scope)
    answer = _value(x.expression, scope)
    require_boolean(kinds_of(answer), x.expression.offset)
    return answer


def walk(value: Json, path: Sequence[str | int], reference: Reference) -> Json:
    """What lies at `path`, the last part of the reference's own, inside a value; Missing says where it ends."""
    for position, step in enumerate(path):
        try:
            value = _enter(value, step)
        except LookupError:
            done = len(reference.path) - len(path) + position
            raise Missing(reference, _reason(value, Reference(reference.root, reference.path[:done]), step)) from None
    return value


def _enter(value: Json, step: str | int) -> Json:
    if isinstance(step, str):
        if isinstance(value, dict):
            return value[step]
    elif isinstance(value, list):
        return value[step]
    raise LookupError


def _reason(value: Json, reached: Reference, step: str | int) -> str:
    if isinstance(value, dict) and isinstance(step, str):
        return f"{reached} has no {step!r}"
    if isinstance(value, list) and isinstance(step, int):
        return f"{reached} has {len(value)} item{'s' * (len(value) != 1)}"
    if value is None:
        return f"{reached} is null"
    return f"{reached} is not an {'object' if isinstance(step, str) else 'array'}"


def _fill(part: Part, scope: _Scope) -> Json:
    match part:
        case Hole() | Text():
            return _fill_here(part, scope)
        case Fixed():
            return part.value
        case Fields():
            return {key: _fill(inner, scope) for key, inner in part.parts}
        case Items():
            return [_fill(inner, scope) for inner in part.parts]


def _fill_here(part: Hole | Text, scope: _Scope) -> Json:
    try:
        if isinstance(part, Hole):
            return _value(part.expression, scope)
        return _concatenate([_write_piece(piece, scope) for piece in part.pieces], scope, 0)
    except ExpressionError as error:
        error.where = part.where
        raise


def _value(node: Expression, scope: _Scope) -> Json:  # noqa: C901  # a case for each kind of node
    match node:
        case syntax.Lookup():
            return _look_up(node, scope)
        case syntax.Constant():
            return node.value
        case syntax.Subject():
            return scope.subject
        case syntax.Comparison():
            return _compare(node, scope)
        case syntax.Arithmetic():
            return _compute(node, scope)
        case syntax.Junction():
            return _decide(node, scope)
        case syntax.Negation():
            operand = _value(node.operand, scope)
            judge(node, [kinds_of(operand)])
            return not operand
        case syntax.Call():
            return _call(node, scope)
        case syntax.Format():
            return _format(node, scope)
        case syntax.ListOf():
            return [_value(item, scope) for item in node.items]


def _look_up(node: syntax.Lookup, scope: _Scope) -> Json:
    try:
        return scope.resolve(node.reference)
    except Missing as missing:
        if node.reference.optional and not node.guarded:
            return None
        missing.offset = node.offset
        raise


def _compare(node: syntax.Comparison, scope: _Scope) -> bool:
    left = _value(node.left, scope)
    if node.right is None:
        return (left is None) is (node.operator == "is_null")
    right = _value(node.right, scope)
    judge(node, [kinds_of(left), kinds_of(right)])
    return _TESTS[node.operator](left, right)


def _compute(node: syntax.Arithmetic, scope: _Scope) -> int:
    values: list[Any] = [_value(operand, scope) for operand in node.operands]  # integers, as judge sees to
    judge(node, [kinds_of(value) for value in values])
    for value, operand in zip(values, node.operands, strict=True):
        _require_bits(value, operand.offset)
    result: int = values[0]
    for sign, operand, value in zip(node.signs, node.operands[1:], values[1:], strict=True):
        if sign in ("//", "%") and value == 0:
            raise ExpressionError("division by zero", operand.offset)
        result = _require_bits(_SIGNS[sign](result, value), node.offset)
    return result


def _require_bits(value: int, offset: int) -> int:
    if value not in syntax.INTEGERS:
        raise ExpressionError("a whole number has more than 64 bits", offset)
    return value


def _decide(node: syntax.Junction, scope: _Scope) -> bool:
    decisive = node.word == "or"
    for operand in node.operands:
        value = _value(operand, scope)
        if not isinstance(value, bool):
            judge(syntax.Junction(node.word, (operand,)), [kinds_of(value)])
        if value is decisive:
            return decisive
    return not decisive


def _call(node: syntax.Call, scope: _Scope) -> Json:
    if node.function == "default":
        return _default(node, scope)
    values = [_value(argument, scope) for argument in node.arguments]
    judge(node, [kinds_of(value) for value in values])
    return _CALLS[node.function](scope, node.offset, *values)


def _default(node: syntax.Call, scope: _Scope) -> Json:
    try:
        value = _value(node.arguments[0], scope)
    except Missing:
        value = None
    return _value(node.arguments[1], scope) if value is None else value


def _format(node: syntax.Format, scope: _Scope) -> str:
    written = [_write_piece(argument, scope) for argument in node.arguments]
    return _concatenate(
        [piece if isinstance(piece, str) else written[piece] for piece in node.pieces], scope, node.offset
    )


def _write(value: Json, offset: int) -> str:
    if isinstance(value, str):
        return value
    require_scalar(kinds_of(value), offset)
    try:
        return json.dumps(value)
    except ValueError:
        raise ExpressionError("a number has too many digits to be part of a text", offset) from None


def _write_piece(piece: str | Expression, scope: _Scope) -> str:
    return piece if isinstance(piece, str) else _write(_value(piece, scope), piece.offset)


def _concatenate(pieces: list[str], scope: _Scope, offset: int, separator: str = "") -> str:
    scope.spend(sum(map(len, pieces)) + len(separator) * max(0, len(pieces) - 1), offset)
    return separator.join(pieces)


def _join_items(scope: _Scope, offset: int, items: list[Json], separator: str) -> str:
    return _concatenate([_write(item, offset) for item in items], scope, offset, separator)


def _change_case(change: Callable[[str], str]) -> Callable[[_Scope, int, str], str]:
    def changed(scope: _Scope, offset: int, text: str) -> str:
        scope.spend(len(text), offset)
        result = change(text)
        scope.spend(max(0, len(result) - len(text)), offset)  # some letters become two or three
        return result

    return changed


def _basename(_scope: _Scope, _offset: int, path: str) -> str:
    _, scheme, rest = path.partition("://")
    if scheme:
        path = rest.partition("#")[0].partition("?")[0]
    return path.rstrip("/").rpartition("/")[2]


def _stem(scope: _Scope, offset: int, path: str) -> str:
    name = _basename(scope, offset, path)
    return name[: _dot(name)]


def _extension(scope: _Scope, offset: int, path: str) -> str:
    name = _basename(scope, offset, path)
    return name[_dot(name) :]


def _dot(name: str) -> int:
    """Where the extension of a file begins; a name that only begins or ends with a dot has none."""
    found = name.rfind(".")
    return found if 0 < found < len(name) - 1 else len(name)


def _split(scope: _Scope, offset: int, text: str, separator: str) -> list[Json]:
    if not separator:
        raise ExpressionError("split needs a separator", offset)
    scope.spend(len(text), offset)
    scope.spend_items(text.count(separator) + 1, offset)
    return [*text.split(separator)]


def _replace(scope: _Scope, offset: int, text: str, old: str, new: str) -> str:
    if not old:
        raise ExpressionError("replace needs a text to look for", offset)
    scope.spend(len(text) + text.count(old) * max(0, len(new) - len(old)), offset)
    return text.replace(old, new)


def _trim(scope: _Scope, offset: int, text: str) -> str:
    scope.spend(len(text), offset)
    return text.strip()


def _range(scope: _Scope, offset: int, *ends: int) -> list[Json]:
    for end in ends:
        _require_bits(end, offset)
    start, stop = ends if len(ends) > 1 else (0, ends[0])
    scope.spend_items(max(0, stop - start), offset)
    return [*range(start, stop)]


def _at(_scope: _Scope, offset: int, items: list[Json], position: int) -> Json:
    if not -len(items) <= position < len(items):
        raise ExpressionError(f"there is no item {position}: the array has {len(items)}", offset)
    return items[position]


def _integer(_scope: _Scope, offset: int, given: str | float) -> int:
    text = given.strip() if isinstance(given, str) else given
    is_whole = _WHOLE.fullmatch(text) is not None if isinstance(text, str) else text == int(text)
    if not is_whole:
        raise ExpressionError(f"{str(given)[:40]!r} is not a whole number", offset)
    return _require_bits(int(text), offset)


def _equal(left: Json, right: Json) -> bool:
    """Equality of JSON values, without recursion: true is not 1, and 1 is 1.0."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pairs.extend(zip(one, other, strict=True))
        elif isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            pairs.extend((value, other[key]) for key, value in one.items())
        elif isinstance(one, list | dict) or isinstance(one, bool) is not isinstance(other, bool) or one != other:
            return False
    return True


def _is_in(value: Json, items: list[Json]) -> bool:
    if isinstance(value, list | dict):
        return any(_equal(value, item) for item in items)
    # Python's own search is the quick one, and finds too much at most: to it, true is 1.
    truth = isinstance(value, bool)
    return value in items and any(item == value and isinstance(item, bool) is truth for item in items)


def _contains(whole: list[Json] | str, part: Json) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    return _is_in(part, whole)


# Any: judge has refused the values that these can't take.
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": _is_in,
    "not_in": lambda value, items: not _is_in(value, items),
    "contains": _contains,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}
_SIGNS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_CALLS: dict[str, Callable[..., Json]] = {
    "min": lambda _scope, _offset, one, other: min(one, other),
    "max": lambda _scope, _offset, one, other: max(one, other),
    "range": _range,
    "at": _at,
    "integer": _integer,
    "split": _split,
    "replace": _replace,
    "trim": _trim,
    "stem": _stem,
    "extension": _extension,
    "length": lambda _scope, _offset, value: len(value),
    "join": _join_items,
    "lower": _change_case(str.lower),
    "upper": _change_case(str.upper),
    "basename": _basename,
}
