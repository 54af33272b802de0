"""From text to a tree: a parser by recursive descent, bounded in length, depth and steps."""

import re
from collections.abc import Callable
from difflib import get_close_matches

from anabranch.workflows.expressions import syntax
from anabranch.workflows.expressions.syntax import Expression, ExpressionError, Reference
from anabranch.workflows.expressions.tokens import Token, read_number, read_text, tokenize

__all__ = ["parse", "parse_braces", "parse_tokens"]

_WORDS: dict[str, syntax.Scalar] = {"true": True, "false": False, "null": None}
_POSTFIX = ("is_null", "is_not_null")
_INSTEAD = {
    "not": "Write not_in.",
    "is": "Write is_null or is_not_null.",
    "?": "Only a reference may be optional, and its ? comes last.",
    ".": "Only a reference has parts, and its ? comes last.",
    "[": "Only a reference has parts, and its ? comes last.",
}
_JOB_PATHS = (("id",), ("scheduled_at",), ("interval_start",), ("ending",))
_PLACEHOLDER = re.compile(r"\{([0-9]{0,3})\}")


def parse(text: str) -> Expression:
    """The expression that a text spells."""
    return parse_tokens(tokenize(text))


def parse_braces(text: str, start: int) -> tuple[Expression, int]:
    """The expression in the braces that open at `start`, and the offset after those that close them."""
    if text.find("}}", start) < 0:
        raise ExpressionError("the {{ is never closed", start, "Close it with }}.")
    tokens = tokenize(text, start + 2, braces=True)
    return parse_tokens(tokens), tokens[-1].offset + 2


def parse_tokens(tokens: list[Token], *, subject: bool = False) -> Expression:
    """The expression of these tokens; with a subject, a comparison may leave out its left side."""
    parser = _Parser(tokens, subject)
    if parser.next.kind in ("close", "end"):
        raise ExpressionError("the expression is empty", parser.next.offset)
    expression = parser.either()
    if parser.next.kind not in ("close", "end"):
        token = parser.next
        raise ExpressionError(f"unexpected {token}", token.offset, _INSTEAD.get(token.text, ""))
    return expression


class _Parser:
    """Where in the tokens we are, and how much of the limits is used."""

    def __init__(self, tokens: list[Token], subject: bool) -> None:
        self._tokens = tokens
        self._position = 0
        self._subject = subject
        self._depth = 0
        self._steps = 0
        self._guards = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._position]

    def either(self) -> Expression:
        return self._junction("or", self._both)

    def _both(self) -> Expression:
        return self._junction("and", self._negation)

    def _junction(self, word: str, part: Callable[[], Expression]) -> Expression:
        operands = [part()]
        offset = self.next.offset
        while self._accept(word):
            operands.append(part())
        return operands[0] if len(operands) == 1 else self._made(syntax.Junction(word, tuple(operands), offset))

    def _negation(self) -> Expression:
        offset = self.next.offset
        if not self._accept("not"):
            return self._comparison()
        return self._made(syntax.Negation(self._nested(self._negation), offset))

    def _comparison(self) -> Expression:
        short = self._subject and self.next.text in syntax.OPERATORS
        left = self._made(syntax.Subject(self.next.offset)) if short else self._sum()
        token = self.next
        if token.text not in syntax.OPERATORS:
            return left
        self._take()
        right = None if token.text in _POSTFIX else self._sum()
        if self.next.text in syntax.OPERATORS:
            raise ExpressionError("comparisons can't be chained", self.next.offset, "Join them with and.")
        return self._made(syntax.Comparison(token.text, left, right, token.offset))

    def _sum(self) -> Expression:
        return self._arithmetic(syntax.SIGNS[0], self._product)

    def _product(self) -> Expression:
        return self._arithmetic(syntax.SIGNS[1], self._signed)

    def _arithmetic(self, level: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        operands, signs, offset = [part()], list[str](), self.next.offset
        if "-" in level:
            self._split_minus()
        while self.next.kind == "sign" and self.next.text in level:
            signs.append(self._take().text)
            operands.append(part())
            if "-" in level:
                self._split_minus()
        if not signs:
            return operands[0]
        return self._made(syntax.Arithmetic(tuple(signs), tuple(operands), offset))

    def _split_minus(self) -> None:
        """After a value, the minus of a number is a sign: `n -1`, and `n-1`."""
        token = self.next
        if token.kind == "number" and token.text[0] == "-":
            number = Token("number", token.text[1:], token.offset + 1)
            self._tokens[self._position : self._position + 1] = [Token("sign", "-", token.offset), number]

    def _signed(self) -> Expression:
        offset = self.next.offset
        if not self._accept("-"):
            return self._operand()
        return self._made(syntax.Arithmetic(("-",), (syntax.Constant(0, offset), self._nested(self._signed)), offset))

    def _operand(self) -> Expression:
        token = self._take()
        if token.kind == "number":
            return self._made(syntax.Constant(read_number(token), token.offset))
        if token.kind == "text":
            return self._made(syntax.Constant(read_text(token), token.offset))
        if token.kind == "word" and token.text not in syntax.OPERATORS + syntax.CHAINS:
            return self._named(token)
        if token.text == "(":
            inner = self._nested(self.either)
            self._expect(")")
            return inner
        if token.text == "[":
            return self._made(syntax.ListOf(self._several("]"), token.offset))
        raise ExpressionError(f"expected a value, found {token}", token.offset)

    def _named(self, token: Token) -> Expression:
        name = token.text
        if self._accept("("):
            return self._call(token)
        if name in _WORDS:
            return self._made(syntax.Constant(_WORDS[name], token.offset))
        if name in syntax.ROOTS:
            return self._made(self._lookup(token))
        if name in syntax.FUNCTIONS:
            raise ExpressionError(f"{name} is a function", token.offset, f"Write {name}(…).")
        before = self._tokens[self._position - 2] if self._position > 1 else token
        is_key = before.text == "-" and before.offset == token.offset - 1
        hint = (
            ('A key that is no plain word is written ["a-b"].' if is_key else "")
            or _near(name, (*syntax.ROOTS, *_WORDS))
            or f"A reference begins with {_listed(syntax.NODE_ROOTS, 'or')}; text needs quotes."
        )
        raise ExpressionError(f"nothing is called {name[:40]!r}", token.offset, hint)

    def _call(self, token: Token) -> Expression:
        name = token.text
        if name not in syntax.FUNCTIONS:
            known = tuple(syntax.FUNCTIONS)
            hint = _near(name, known) or f"The functions are {_listed(known, 'and')}."
            raise ExpressionError(f"there is no function {name[:40]!r}", token.offset, hint)
        arguments = self._several(")", guard_first=name == "default")
        if name == "format":
            return self._made(_format(arguments, token.offset))
        if len(arguments) not in (wanted := syntax.FUNCTIONS[name]):
            said = f"{' or '.join(map(str, wanted))} {'argument' if wanted == (1,) else 'arguments'}"
            raise ExpressionError(f"{name} takes {said}, not {len(arguments)}", token.offset)
        return self._made(syntax.Call(name, arguments, token.offset))

    def _several(self, closing: str, *, guard_first: bool = False) -> tuple[Expression, ...]:
        found: list[Expression] = []
        if self._accept(closing):
            return ()
        while True:
            guard = guard_first and not found
            self._guards += guard
            found.append(self._nested(self.either))
            self._guards -= guard
            if self._accept(closing):
                return tuple(found)
            self._expect(",", or_else=closing)

    def _lookup(self, root: Token) -> syntax.Lookup:
        path: list[str | int] = []
        while self.next.text in (".", "["):
            path.append(self._name() if self._take().text == "." else self._index())
        marked = self._accept("?")
        guarded = self._guards > 0 and not marked
        reference = Reference(root.text, tuple(path), marked or guarded)
        _require_whole(reference, root.offset)
        return syntax.Lookup(reference, root.offset, guarded)

    def _name(self) -> str:
        token = self._take()
        if token.kind != "word":
            hint = f"Write [{token.text[:40]}]." if token.kind in ("number", "text") else ""
            raise ExpressionError(f"expected a name after the dot, found {token}", token.offset, hint)
        return token.text

    def _index(self) -> str | int:
        token = self._take()
        index = read_text(token) if token.kind == "text" else read_number(token) if token.kind == "number" else None
        if index is None or isinstance(index, float):
            hint = "Quote a key."
            raise ExpressionError(f"expected a whole number or a quoted key, found {token}", token.offset, hint)
        self._expect("]")
        return index

    def _nested(self, part: Callable[[], Expression]) -> Expression:
        self._depth += 1
        if self._depth > syntax.MAX_DEPTH:
            raise ExpressionError(f"the expression is nested deeper than {syntax.MAX_DEPTH} levels", self.next.offset)
        inner = part()
        self._depth -= 1
        return inner

    def _made(self, node: Expression) -> Expression:
        self._steps += 1
        if self._steps > syntax.MAX_STEPS:
            raise ExpressionError(f"the expression takes more than {syntax.MAX_STEPS:,} steps", node.offset)
        return node

    def _take(self) -> Token:
        token = self.next
        if token.kind not in ("close", "end"):
            self._position += 1
        return token

    def _accept(self, text: str) -> bool:
        found = self.next.text == text
        self._position += found
        return found

    def _expect(self, text: str, *, or_else: str = "") -> None:
        if not self._accept(text):
            wanted = f"{text!r} or {or_else!r}" if or_else else repr(text)
            hint = _INSTEAD.get(self.next.text, "")
            raise ExpressionError(f"expected {wanted}, found {self.next}", self.next.offset, hint)


def _require_whole(reference: Reference, offset: int) -> None:
    root, path = reference.root, reference.path
    if root in ("inputs", "nodes") and not (path and isinstance(path[0], str)):
        example = "inputs.x" if root == "inputs" else "nodes.x.output"
        raise ExpressionError(f"{root} needs a name after it", offset, f"Write {example}.")
    if root == "nodes" and path[1:2] != ("output",):
        raise ExpressionError("of a node only its output can be used", offset, f"Write {_with_output(reference)}.")
    if root == "index" and path:
        raise ExpressionError("index is a number and has no parts", offset)
    if root == "job" and path not in _JOB_PATHS:
        raise ExpressionError(
            "of a job only its id, its ending and the times of its tick can be used", offset, "Write job.id."
        )
    if root == "object" and (len(path) != 1 or path[0] not in syntax.OBJECT_FIELDS):
        known = _listed(tuple(f"object.{name}" for name in syntax.OBJECT_FIELDS), "or")
        raise ExpressionError("that is nothing of an object", offset, f"Write {known}.")


def _with_output(reference: Reference) -> Reference:
    node, *rest = reference.path
    if rest and get_close_matches(str(rest[0]), ["output"]):
        rest = rest[1:]
    return Reference("nodes", (node, "output", *rest))


def _format(arguments: tuple[Expression, ...], offset: int) -> syntax.Format:
    text = arguments[0] if arguments else None
    if not isinstance(text, syntax.Constant) or not isinstance(text.value, str):
        raise ExpressionError("format begins with a quoted text", offset, "Write format('{} of {}', a, b).")
    pieces = _split(text.value, text.offset)
    used = {piece for piece in pieces if isinstance(piece, int)}
    given = len(arguments) - 1
    if beyond := [number for number in used if number >= given]:
        raise ExpressionError(f"format has no argument for {{{min(beyond)}}}", offset, "They are counted from 0.")
    if unused := set(range(given)) - used:
        raise ExpressionError(f"format has no place for argument {{{min(unused)}}}", offset)
    return syntax.Format(pieces, arguments[1:], offset)


def _split(text: str, offset: int) -> tuple[str | int, ...]:
    parts = _PLACEHOLDER.split(text)
    if any("{" in part for part in parts[::2]):
        raise ExpressionError(
            "a { in format's text must begin {} or {0}", offset, "Give a brace as an argument: format('{}', '{')."
        )
    numbers = parts[1::2]
    if "" in numbers and any(numbers):
        raise ExpressionError("format mixes {} with {0}", offset, "Number all of them, or none.")
    pieces: list[str | int] = [parts[0]]
    for position, number in enumerate(numbers):
        pieces += [int(number) if number else position, parts[2 * position + 2]]
    return tuple(piece for piece in pieces if piece != "")


def _near(name: str, known: tuple[str, ...]) -> str:
    found = get_close_matches(name[:40], known, n=1)
    return f"Did you mean {found[0]}?" if found else ""


def _listed(names: tuple[str, ...], last: str) -> str:
    return f"{', '.join(names[:-1])} {last} {names[-1]}"
