"""Types of expressions: one set of rules, asked at load with what is known and at evaluation with the values."""

from collections.abc import Callable, Sequence
from typing import Literal

from anabranch.canonical import Json
from anabranch.workflows.expressions import syntax
from anabranch.workflows.expressions.conditions import Condition
from anabranch.workflows.expressions.syntax import Expression, ExpressionError, Reference
from anabranch.workflows.expressions.templates import Fields, Fixed, Hole, Items, Part, Template, Text, Where

__all__ = ["Kinds", "TypeName", "check", "check_all", "judge", "kinds_of", "require_boolean", "require_scalar"]

TypeName = Literal["string", "number", "integer", "boolean", "array", "object", "null", "any"]
Kinds = frozenset[str]
Types = Callable[[Reference], TypeName | None]
Hint = Callable[[Reference], str]

# A value is of one kind; `number` is a kind for fractions here, and for both sorts of numbers in a TypeName.
_STRING: Kinds = frozenset({"string"})
_INTEGER: Kinds = frozenset({"integer"})
_NUMBER: Kinds = frozenset({"integer", "number"})
_BOOLEAN: Kinds = frozenset({"boolean"})
_ARRAY: Kinds = frozenset({"array"})
_OBJECT: Kinds = frozenset({"object"})
_NULL: Kinds = frozenset({"null"})
_SCALAR = _STRING | _NUMBER | _BOOLEAN | _NULL
_ANY = _SCALAR | _ARRAY | _OBJECT
_ORDER: tuple[TypeName, ...] = ("string", "integer", "number", "boolean", "array", "object", "null")
_KINDS: dict[type, Kinds] = {
    str: _STRING,
    int: _INTEGER,
    float: frozenset({"number"}),
    bool: _BOOLEAN,
    list: _ARRAY,
    dict: _OBJECT,
    type(None): _NULL,
}
_NAMES: dict[Kinds, TypeName] = {
    **{frozenset([name]): name for name in _ORDER},
    _NUMBER: "number",
}
_CALLS: dict[str, tuple[tuple[Kinds, ...], Kinds]] = {
    "length": ((_STRING | _ARRAY | _OBJECT,), _INTEGER),
    "join": ((_ARRAY, _STRING), _STRING),
    "lower": ((_STRING,), _STRING),
    "upper": ((_STRING,), _STRING),
    "basename": ((_STRING,), _STRING),
    "stem": ((_STRING,), _STRING),
    "extension": ((_STRING,), _STRING),
    "trim": ((_STRING,), _STRING),
    "split": ((_STRING, _STRING), _ARRAY),
    "replace": ((_STRING, _STRING, _STRING), _STRING),
    "range": ((_INTEGER, _INTEGER), _ARRAY),
    "at": ((_ARRAY, _INTEGER), _ANY),
    "integer": ((_STRING | _NUMBER,), _INTEGER),
    "min": ((_NUMBER, _NUMBER), _NUMBER),
    "max": ((_NUMBER, _NUMBER), _NUMBER),
}
_ARITHMETIC = {
    _STRING: "Join text by format('{}{}', a, b); make a number of text by integer(text).",
    frozenset({"number"}): "Compute with fractions in a handler.",
}
_TWO_STRINGS = (_STRING, _STRING)
_ORDERS = ((_NUMBER, _NUMBER), _TWO_STRINGS)
_PAIRS: dict[str, tuple[str, tuple[tuple[Kinds, Kinds], ...]]] = {
    **dict.fromkeys(("<", "<=", ">", ">="), ("two numbers or two strings", _ORDERS)),
    **dict.fromkeys(("in", "not_in"), ("a value and an array", ((_ANY, _ARRAY),))),
    **dict.fromkeys(("starts_with", "ends_with"), ("two strings", (_TWO_STRINGS,))),
    "contains": ("an array and a value, or two strings", ((_ARRAY, _ANY), _TWO_STRINGS)),
}


def check(
    x: Expression | Condition | Template, types: Types, *, subject: TypeName = "any", hint: Hint | None = None
) -> TypeName:
    """The type of its result; the first mistake is raised. `types` answers None for what does not exist."""
    checker = _Checker(types, subject, hint)
    kinds = checker.check(x)
    if checker.mistakes:
        raise checker.mistakes[0]
    return _NAMES.get(kinds, "any")


def check_all(
    x: Expression | Condition | Template, types: Types, *, subject: TypeName = "any", hint: Hint | None = None
) -> list[ExpressionError]:
    """Every mistake that check would find."""
    checker = _Checker(types, subject, hint)
    checker.check(x)
    return checker.mistakes


def kinds_of(value: Json) -> Kinds:
    """The one kind of a value, as a set."""
    try:
        return _KINDS[type(value)]
    except KeyError:
        raise ExpressionError(f"a {type(value).__name__} is not JSON") from None


def judge(node: Expression, operands: Sequence[Kinds]) -> Kinds:
    """The kinds that a node may give for such operands; an error where no choice among them fits."""
    match node:
        case syntax.Comparison():
            return _judge_comparison(node, operands)
        case syntax.Call():
            return _judge_call(node, operands)
        case syntax.Format():
            return _judge_format(node, operands)
        case syntax.Junction() | syntax.Negation():
            name = node.word if isinstance(node, syntax.Junction) else "not"
            for operand, given in zip(syntax.children(node), operands, strict=True):
                _require(given, _BOOLEAN, name, operand.offset)
            return _BOOLEAN
        case syntax.Arithmetic():
            return _judge_arithmetic(node, operands)
        case syntax.ListOf():
            return _ARRAY
        case syntax.Constant():
            return kinds_of(node.value)
        case syntax.Lookup() | syntax.Subject():
            return _ANY


def require_scalar(given: Kinds, offset: int) -> None:
    """Refuse what can't become part of a text."""
    if not given & _SCALAR:
        hint = "Make it text with join, or let the expression stand alone." if given == _ARRAY else ""
        raise ExpressionError(f"{_phrase(given)} can't be part of a text", offset, hint)


def require_boolean(given: Kinds, offset: int) -> None:
    """Refuse what can't decide a condition."""
    if not given & _BOOLEAN:
        raise ExpressionError(f"a condition must be a boolean, not {_phrase(given)}", offset)


def _judge_comparison(node: syntax.Comparison, operands: Sequence[Kinds]) -> Kinds:
    if node.operator not in _PAIRS:
        return _BOOLEAN
    left, right = operands
    wanted, pairs = _PAIRS[node.operator]
    if not any(left & first and right & second for first, second in pairs):
        hint = "Use contains to look into a string." if node.operator.endswith("in") and right == _STRING else ""
        given = f"{_phrase(left)} and {_phrase(right)}"
        raise ExpressionError(f"{node.operator} takes {wanted}, not {given}", node.offset, hint)
    return _BOOLEAN


def _judge_arithmetic(node: syntax.Arithmetic, operands: Sequence[Kinds]) -> Kinds:
    for sign, operand, given in zip((node.signs[0], *node.signs), node.operands, operands, strict=True):
        _require(given, _INTEGER, sign, operand.offset, _ARITHMETIC.get(given, ""))
    return _INTEGER


def _judge_format(node: syntax.Format, operands: Sequence[Kinds]) -> Kinds:
    for argument, given in zip(node.arguments, operands, strict=True):
        require_scalar(given, argument.offset)
    return _STRING


def _judge_call(node: syntax.Call, operands: Sequence[Kinds]) -> Kinds:
    if node.function == "default":
        return operands[0] - _NULL | operands[1]
    wanted, result = _CALLS[node.function]
    for argument, given, kinds in zip(node.arguments, operands, wanted, strict=False):  # the last may be left out
        _require(given, kinds, node.function, argument.offset)
    return result & frozenset[str]().union(*operands) if node.function in ("min", "max") else result


def _require(given: Kinds, wanted: Kinds, who: str, offset: int, hint: str = "") -> None:
    if not given & wanted:
        raise ExpressionError(f"{who} takes {_phrase(wanted)}, not {_phrase(given)}", offset, hint)


def _phrase(kinds: Kinds) -> str:
    if kinds == _ANY:
        return "any value"
    names = sorted(kinds - {"integer"} if kinds >= _NUMBER else kinds, key=_ORDER.index)
    return " or ".join(name if name == "null" else f"{'an' if name[0] in 'aio' else 'a'} {name}" for name in names)


class _Checker:
    """Goes on after a mistake, and keeps it."""

    def __init__(self, types: Types, subject: TypeName, hint: Hint | None) -> None:
        self.mistakes: list[ExpressionError] = []
        self._types = types
        self._subject = _kinds_named(subject)
        self._hint = hint

    def check(self, x: Expression | Condition | Template) -> Kinds:
        if isinstance(x, Template):
            return self._part(x.part)
        if not isinstance(x, Condition):
            return self._kinds(x)
        given = self._kinds(x.expression)
        self._keep(lambda: require_boolean(given, x.expression.offset))
        return _BOOLEAN

    def _part(self, part: Part) -> Kinds:
        match part:
            case Fixed():
                return kinds_of(part.value)
            case Hole():
                return self._kinds(part.expression, part.where)
            case Text():
                self._text(part)
                return _STRING
            case Items():
                for inner in part.parts:
                    self._part(inner)
                return _ARRAY
            case Fields():
                for _, inner in part.parts:
                    self._part(inner)
                return _OBJECT

    def _text(self, part: Text) -> None:
        for piece in part.pieces:
            if not isinstance(piece, str):
                self._piece(piece, part.where)

    def _piece(self, piece: Expression, where: Where) -> None:
        given = self._kinds(piece, where)
        self._keep(lambda: require_scalar(given, piece.offset), where)

    def _kinds(self, node: Expression, where: Where = ()) -> Kinds:
        match node:
            case syntax.Lookup():
                return self._keep(lambda: self._lookup(node), where)
            case syntax.Subject():
                return self._subject
            case _:
                operands = [self._kinds(child, where) for child in syntax.children(node)]
                return self._keep(lambda: judge(node, operands), where)

    def _lookup(self, node: syntax.Lookup) -> Kinds:
        reference = node.reference
        name = self._types(reference)
        if name is None:
            plain = Reference(reference.root, reference.path)
            hint = self._hint(reference) if self._hint else ""
            raise ExpressionError(f"there is no {plain}", node.offset, hint)
        kinds = _kinds_named(name)
        return kinds | _NULL if reference.optional and not node.guarded else kinds

    def _keep(self, rule: Callable[[], Kinds | None], where: Where = ()) -> Kinds:
        try:
            return rule() or _ANY
        except ExpressionError as mistake:
            mistake.where = where
            self.mistakes.append(mistake)
            return _ANY


def _kinds_named(name: TypeName) -> Kinds:
    return _ANY if name == "any" else _NUMBER if name == "number" else frozenset([name])
