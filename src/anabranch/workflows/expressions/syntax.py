"""What an expression is made of: a tree of frozen values, and the errors that point into its text."""

import json
import re
from dataclasses import dataclass, field

__all__ = [
    "CHAINS",
    "FUNCTIONS",
    "INTEGERS",
    "MAX_DEPTH",
    "MAX_ITEMS",
    "MAX_SOURCE",
    "MAX_STEPS",
    "MAX_TEXT",
    "NODE_ROOTS",
    "OBJECT_FIELDS",
    "OPERATORS",
    "ROOTS",
    "SIGNS",
    "Arithmetic",
    "Call",
    "Comparison",
    "Constant",
    "Expression",
    "ExpressionError",
    "Format",
    "Junction",
    "ListOf",
    "Lookup",
    "Missing",
    "Negation",
    "Reference",
    "Scalar",
    "Subject",
    "children",
    "compute",
]

MAX_SOURCE = 2_000
MAX_DEPTH = 32
MAX_STEPS = 1_000
MAX_TEXT = 1_000_000
MAX_ITEMS = 1_000_000
INTEGERS = range(-(2**63), 2**63)

NODE_ROOTS = ("inputs", "nodes", "item", "index", "job")
ROOTS = (*NODE_ROOTS, "object")  # which the inputs of schedules name
OBJECT_FIELDS = ("url", "path", "name", "version", "size", "modified")  # of what a schedule watches
FUNCTIONS: dict[str, tuple[int, ...]] = {  # and how many arguments each takes
    "default": (2,),
    "length": (1,),
    "min": (2,),
    "max": (2,),
    "range": (1, 2),
    "at": (2,),
    "integer": (1,),
    "join": (2,),
    "split": (2,),
    "replace": (3,),
    "trim": (1,),
    "lower": (1,),
    "upper": (1,),
    "basename": (1,),
    "stem": (1,),
    "extension": (1,),
    "format": (),
}
SIGNS = (("+", "-"), ("*", "//", "%"))  # the later bind closer
CHAINS = ("and", "or", "not")
OPERATORS = (
    *("==", "!=", "<", "<=", ">", ">="),
    *("in", "not_in", "contains", "starts_with", "ends_with", "is_null", "is_not_null"),
)

Scalar = str | int | float | bool | None
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ExpressionError(ValueError):
    """What is wrong (`message`), at which `offset` of the text and `where` in a template, and a `hint` what to do."""

    def __init__(self, message: str, offset: int = 0, hint: str = "", where: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.hint = hint
        self.where = where


@dataclass(frozen=True, slots=True)
class Reference:
    """A name for something outside the expression; an optional one is null where that is missing (G8)."""

    root: str
    path: tuple[str | int, ...] = ()
    optional: bool = False

    def __str__(self) -> str:
        return self.root + "".join(map(_spell, self.path)) + "?" * self.optional


class Missing(ExpressionError):
    """There is nothing where a reference points; `reason` says how far its path got."""

    def __init__(self, reference: Reference, reason: str = "") -> None:
        super().__init__(f"{reference} is missing" + (f": {reason}" if reason else ""))
        self.args = (reference, reason)  # what pickle makes it from again
        self.reference = reference
        self.reason = reason

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, text, true, false or null."""

    value: Scalar
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The value of a reference; a guarded one stands in a default(), which takes over when it is missing."""

    reference: Reference
    offset: int = field(default=0, compare=False)
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """The value that a short condition is about."""

    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list, item by item."""

    items: tuple["Expression", ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments."""

    function: str
    arguments: tuple["Expression", ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Format:
    """A call of format(): text, and between it the numbers of the arguments to put there."""

    pieces: tuple[str | int, ...]
    arguments: tuple["Expression", ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Whole numbers with signs of one level between them, from left to right; -x is 0 - x."""

    signs: tuple[str, ...]
    operands: tuple["Expression", ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A test of one value (`is_null`) or of two."""

    operator: str
    left: "Expression"
    right: "Expression | None" = None
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions joined by one word, `and` or `or`."""

    word: str
    operands: tuple["Expression", ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """The opposite of a condition."""

    operand: "Expression"
    offset: int = field(default=0, compare=False)


Expression = Constant | Lookup | Subject | ListOf | Call | Format | Arithmetic | Comparison | Junction | Negation


def compute(sign: str, left: Expression, right: Expression) -> Arithmetic:
    """Two operands and a sign; operators of one precedence level are flattened."""
    level = next(signs for signs in SIGNS if sign in signs)
    if isinstance(left, Arithmetic) and left.signs[0] in level:
        return Arithmetic((*left.signs, sign), (*left.operands, right))
    return Arithmetic((sign,), (left, right))


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one, in the order in which they are written."""
    match node:
        case Constant() | Lookup() | Subject():
            return ()
        case ListOf():
            return node.items
        case Call() | Format():
            return node.arguments
        case Comparison():
            return (node.left,) if node.right is None else (node.left, node.right)
        case Junction() | Arithmetic():
            return node.operands
        case Negation():
            return (node.operand,)


def _spell(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _WORD.fullmatch(step) else f"[{json.dumps(step, ensure_ascii=False)}]"
