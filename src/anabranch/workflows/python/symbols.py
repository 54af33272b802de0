"""Values of a job that a workflow function handles while it is traced: what is done with them becomes expressions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

from anabranch.workflows.expressions import syntax
from anabranch.workflows.python.places import mistake_here
from anabranch.workflows.python.recorder import MARK, Recorder, recording

__all__ = ["Symbol", "expression_of", "item", "pieces_of", "rebuild", "references"]

_UNKNOWN = "this value is known only when a job runs, and the function is traced before"


def _comparing(operator: str) -> Callable[["Symbol", Any], "Symbol"]:
    def compare(self: "Symbol", other: Any) -> "Symbol":  # JSON, or another symbol
        return Symbol(syntax.Comparison(operator, expression_of(self), expression_of(other)), recording())

    return compare


def _joining(word: str) -> Callable[["Symbol", Any], "Symbol"]:
    def join(self: "Symbol", other: Any) -> "Symbol":  # a condition
        return Symbol(syntax.Junction(word, (expression_of(self), expression_of(other))), recording())

    return join


def _computing(sign: str, *, is_right: bool = False) -> Callable[["Symbol", Any], "Symbol"]:
    def compute(self: "Symbol", other: Any) -> "Symbol":  # a whole number, or another symbol
        left, right = (other, self) if is_right else (self, other)
        return Symbol(syntax.compute(sign, expression_of(left), expression_of(right)), recording())

    return compute


def _refusing(message: str, hint: str) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise mistake_here(message, hint)

    return refuse


_compute = _refusing("expressions have + - * // and % only", "Compute it in a handler; join text by an f-string.")
_convert = _refusing(_UNKNOWN, "Convert it in a handler.")


class Symbol:
    """A value that a job will have: `x.name`, `x["key"]`, comparisons, sums, `&`, `|`, `~`, f-strings make others."""

    __slots__ = ("_held", "_trace")

    def __init__(self, expression: syntax.Expression | None, trace: Recorder | None) -> None:
        """One without a trace belongs to any: `item`, `index`."""
        self._held = expression
        self._trace = trace

    @property
    def _expression(self) -> syntax.Expression:
        assert self._held is not None  # noqa: S101  # only those that override this have none
        return self._held

    def __getattr__(self, name: str) -> "Symbol":
        if name.startswith("_"):  # what Python and its tools ask any object for
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: object) -> "Symbol":
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise mistake_here("a part is named by text or a whole number", "Pick it in a handler.")
        expression = expression_of(self)
        if not isinstance(expression, syntax.Lookup):
            hint = "Take the part first: expr.default(x.part, …)."
            raise mistake_here("only inputs, items and results have parts, not what is made of them", hint)
        reference = expression.reference
        return Symbol(replace(expression, reference=replace(reference, path=(*reference.path, key))), self._trace)

    __eq__ = _comparing("==")  # type: ignore[assignment]  # an expression, where Python wants a bool
    __ne__ = _comparing("!=")  # type: ignore[assignment]  # as above
    __lt__ = _comparing("<")
    __le__ = _comparing("<=")
    __gt__ = _comparing(">")
    __ge__ = _comparing(">=")
    __and__ = __rand__ = _joining("and")
    __or__ = __ror__ = _joining("or")
    __hash__ = object.__hash__

    def __invert__(self) -> "Symbol":
        return Symbol(syntax.Negation(expression_of(self)), recording())

    def __format__(self, spec: str) -> str:
        if spec or self._trace not in (None, recording()):
            expression_of(self)
            raise mistake_here(f"a value can't be formatted by {spec!r}", "Format it in a handler.")
        return recording(needed=True).keep(expression_of(self))

    def __str__(self) -> str:
        return format(self)

    def __repr__(self) -> str:
        return f"<a value of a job: {self._held}>"

    __bool__ = _refusing(
        f"{_UNKNOWN}: Python can't decide by it",
        "Write choose(condition, then, otherwise) in place of if, and & | ~ in place of and, or, not.",
    )
    __iter__ = _refusing(f"{_UNKNOWN}: Python can't loop over it", "Write handler.map(items) in place of a loop.")
    __len__ = _refusing(_UNKNOWN, "Write expr.length(x) in place of len(x).")
    __contains__ = _refusing(_UNKNOWN, "Write expr.contains(whole, part) in place of in.")
    __call__ = _refusing("a value of a job has no methods", "Use the functions of expr, or a handler.")
    __int__ = __float__ = __complex__ = __index__ = __round__ = _convert
    __add__, __radd__ = _computing("+"), _computing("+", is_right=True)
    __sub__, __rsub__ = _computing("-"), _computing("-", is_right=True)
    __mul__, __rmul__ = _computing("*"), _computing("*", is_right=True)
    __floordiv__, __rfloordiv__ = _computing("//"), _computing("//", is_right=True)
    __mod__, __rmod__ = _computing("%"), _computing("%", is_right=True)
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __pos__ = __abs__ = _compute

    def __neg__(self) -> "Symbol":
        return 0 - self


item: Any = Symbol(syntax.Lookup(syntax.Reference("item")), None)


def expression_of(value: Any) -> syntax.Expression:  # JSON, or a symbol
    """The expression of a symbol, or of a value that can be written in one."""
    match value:
        case Symbol():
            if value._trace not in (None, recording()):
                raise mistake_here(
                    "this is a value of another workflow function", "Pass it as a parameter when that one is called."
                )
            return value._expression
        case str() if MARK in value:
            return _format(pieces_of(value))
        case str() | bool() | int() | float() | None:
            return syntax.Constant(value)
        case list() | tuple():
            return syntax.ListOf(tuple(map(expression_of, value)))
        case _:
            hint = "Compare or build it in a handler."
            raise mistake_here(f"a {type(value).__name__} can't be part of an expression", hint)


def pieces_of(text: str) -> list[str | syntax.Expression]:
    """A text, and the expressions that an f-string put into it."""
    if MARK not in text:
        return [text]
    split = text.split(MARK)
    kept = (recording(needed=True).kept(piece) if number % 2 else piece for number, piece in enumerate(split))
    return [piece for piece in kept if piece != ""]


def _format(pieces: list[str | syntax.Expression]) -> syntax.Expression:
    """The text of an f-string inside an expression; what has a brace in it becomes an argument."""
    arguments: list[syntax.Expression] = []
    made: list[str | int] = []
    for piece in pieces:
        if isinstance(piece, str) and "{" not in piece:
            made.append(piece)
        else:
            made.append(len(arguments))
            arguments.append(syntax.Constant(piece) if isinstance(piece, str) else piece)
    return syntax.Format(tuple(made), tuple(arguments))


def references(node: syntax.Expression, *, is_optional: bool = False) -> Iterator[tuple[syntax.Reference, bool]]:
    """Every reference of an expression, and whether what it names may be missing."""
    match node:
        case syntax.Lookup():
            yield node.reference, is_optional or node.reference.optional
        case syntax.Call("default", (first, second)):
            yield from references(first, is_optional=True)
            yield from references(second, is_optional=is_optional)
        case (
            syntax.ListOf(items=inner)
            | syntax.Call(arguments=inner)
            | syntax.Format(arguments=inner)
            | syntax.Junction(operands=inner)
            | syntax.Arithmetic(operands=inner)
        ):
            for part in inner:
                yield from references(part, is_optional=is_optional)
        case syntax.Comparison(left=left, right=right):
            for part in (left,) if right is None else (left, right):
                yield from references(part, is_optional=is_optional)
        case syntax.Negation(operand=operand):
            yield from references(operand, is_optional=is_optional)
        case _:
            pass


def rebuild(node: syntax.Expression, change: Callable[[syntax.Lookup], syntax.Expression]) -> syntax.Expression:
    """The expression with its references changed."""

    def again(part: syntax.Expression) -> syntax.Expression:
        return rebuild(part, change)

    match node:
        case syntax.Lookup():
            return change(node)
        case syntax.ListOf():
            return replace(node, items=tuple(map(again, node.items)))
        case syntax.Call() | syntax.Format():
            return replace(node, arguments=tuple(map(again, node.arguments)))
        case syntax.Comparison():
            return replace(node, left=again(node.left), right=None if node.right is None else again(node.right))
        case syntax.Junction() | syntax.Arithmetic():
            return replace(node, operands=tuple(map(again, node.operands)))
        case syntax.Negation():
            return replace(node, operand=again(node.operand))
        case _:
            return node
