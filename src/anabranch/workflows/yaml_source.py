"""A YAML file as text with positions: what no file may hold, and a parser's complaints in plain words."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from yaml.error import Mark, MarkedYAMLError

from anabranch.workflows.yaml_scalars import shorten

__all__ = ["Mistake", "Position", "Source", "TreeError", "find_escape", "read_source"]

MAX_BYTES = 1_000_000
MAX_MISTAKES = 100

# U+0085, U+2028 and U+2029 end a line in YAML 1.1 and not in 1.2; U+FEFF is a mark only at the very start.
_UNFIT = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_DIRECTIVE = re.compile(r"(?m)^%[^\r\n]*")
_PREFACE = re.compile(r"(?:(?:[ ]*(?:#[^\r\n]*)?|%[^\r\n]*)(?:\r\n|\r|\n|\Z))*")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.|\Z))", re.DOTALL)
_SHORT_ESCAPES = '0abt\tnvfre "\\/N_LP\r\n'
_LOOSE_EXPRESSION = re.compile(r"[:,\[{-]\s*\{\{")

_BRACKETS = {"[": "]", "{": "}"}
_ESCAPE_HINT = "Leave it out, or write the character itself."
_EXPRESSION_HINT = 'Quote an expression: "{{ inputs.name }}".'

_BAD_NAME = re.compile(r"(?:scanning|parsing) an? (?:anchor|alias|tag)|tag handle")
_BAD_ESCAPE = re.compile("escape|hexa?decimal")


@dataclass(frozen=True)
class _Phrase:
    """How we say what either parser says: its own words for the same mistake differ."""

    complaint: re.Pattern[str]
    message: str
    hint: str
    at_start: bool = False  # where the thing begins that went wrong, not where that came to light
    never_closed: str = ""  # said instead where the file ends within brackets


_BLOCK_HEADER = _Phrase(
    re.compile("scanning a block scalar"),
    "after | or > only +, -, a digit from 1 to 9 or a comment may follow, not {found}",
    "Begin the text on the next line.",
)

_PHRASES = (
    _Phrase(
        re.compile("quoted scalar: found unexpected"),
        "this quote is never closed",
        "Close it, or double a quote that belongs to the text.",
        at_start=True,
    ),
    _Phrase(
        re.compile("cannot start any token"),
        "unquoted text can't start with {found}",
        "Quote the text.",
    ),
    _BLOCK_HEADER,
    _Phrase(
        re.compile("scanning a simple key"),
        "this key has no colon",
        "Put a colon and a space after a key, which is on one line and at most 1,024 characters long.",
        at_start=True,
    ),
    _Phrase(
        re.compile("flow (?:mapping|sequence): .*expected"),
        "',' or '{close}' is expected in the '{opened}' of line {line}, but {found} was found",
        "Put commas between items, and quote text that holds brackets.",
        never_closed="the '{opened}' of line {line} is never closed",
    ),
    _Phrase(
        re.compile("expected (?:the )?node content"),
        "a value is expected here, but {found} was found",
        "Quote text that starts so, and close what is open.",
    ),
    _Phrase(
        re.compile("block mapping: .*expected"),
        "a key is expected here, in the mapping of line {line}, but {found} was found",
        "Check the indentation and the quotes.",
    ),
    _Phrase(
        re.compile("block (?:collection|sequence): .*expected"),
        "an item is expected here, in the list of line {line}, but {found} was found",
        "Check the indentation, and start each item with '- '.",
    ),
    _Phrase(
        re.compile("mapping values are not allowed"),
        "a colon is not expected here",
        "Check the indentation, and quote text that holds a colon.",
    ),
    _Phrase(
        re.compile("sequence entries are not allowed"),
        "a list item is not expected here",
        "Check the indentation, and quote text that starts with '- '.",
    ),
    _Phrase(
        re.compile("mapping keys are not allowed"),
        "a '?' is not expected here",
        "Quote text that starts with it.",
    ),
    _Phrase(
        re.compile("expected '?<document start>"),
        "the document has ended, but {found} follows",
        "Check the indentation and the quotes.",
    ),
)


@dataclass(frozen=True, order=True)
class Position:
    """A place in a file; the first line and the first column are 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Mistake:
    """What is wrong in a file, where, and what to do about it."""

    message: str
    line: int
    column: int
    hint: str = ""


class TreeError(Exception):
    """A file that can't be read, with all the mistakes that were found in it."""

    def __init__(self, name: str, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__(name, mistakes)
        self.name = name
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(f"{self.name}:{wrong.line}:{wrong.column}: {wrong.message}" for wrong in self.mistakes)


@dataclass(frozen=True)
class Source:
    """A file's text. Places in it are offsets, the one measure on which YAML parsers agree."""

    text: str
    name: str

    def position(self, offset: int) -> Position:
        line = bisect_right(self._line_starts, min(offset, len(self.text)))
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def line(self, number: int) -> str:
        start = self._line_starts[number - 1]
        end = self._line_starts[number] if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def mistake(self, offset: int, message: str, hint: str) -> Mistake:
        at = self.position(offset)
        return Mistake(message, at.line, at.column, hint)

    def error(self, mistakes: list[Mistake]) -> TreeError:
        ordered = sorted(set(mistakes), key=lambda wrong: (wrong.line, wrong.column, wrong.message))
        return TreeError(self.name, tuple(ordered[:MAX_MISTAKES]))

    def tab(self, offset: int) -> Mistake:
        """A tab outside of quotes, block text and comments."""
        before = self.line(self.position(offset).line)[: self.position(offset).column - 1]
        if before.strip():
            return self.mistake(offset, "a tab stands between words", "Use spaces; a tab may stand in quotes.")
        return self.mistake(offset, "a tab is used to indent", "Indent with spaces.")

    def anchor(self, offset: int) -> Mistake:
        return self.mistake(
            offset, f"anchors and aliases are refused: {self._word(offset)}", "Write the value out in each place."
        )

    def tag(self, offset: int) -> Mistake:
        return self.mistake(offset, f"tags are refused: {self._word(offset)}", "Leave it out; quote what is text.")

    def escape(self, offset: int) -> Mistake:
        """An escape in double quotes that stands for nothing we can hold."""
        found = _ESCAPE.match(self.text, offset)
        shown = found[0].rstrip("\r\n") if found else "\\"
        if found and (found[4] or "0") == "0":
            return self.mistake(offset, f"the escape {shown} is no character that can be stored", _ESCAPE_HINT)
        return self.mistake(offset, f"{shown} is not an escape", r"Write \\ for a backslash, or use single quotes.")

    def block_header(self, offset: int) -> Mistake:
        """Something after the | or > of block text."""
        found = re.compile(r"[|>][-+1-9]* *").match(self.text, offset)
        return self._say(_BLOCK_HEADER, found.end() if found else offset, offset)

    def question(self, offset: int) -> Mistake:
        """A `?` in unquoted text within brackets, which one parser takes for a key's sign."""
        return self.mistake(offset, "unquoted text in brackets can't hold a '?'", "Quote the text.")

    def tight_colon(self, offset: int) -> Mistake:
        """A colon before a bracket or comma: a key's end to one parser, an error to the other."""
        return self.mistake(offset, "a colon in brackets needs a space after it", "Add the space, or quote the text.")

    def syntax(self, error: MarkedYAMLError) -> Mistake:
        """A parser's complaint as one plain sentence."""
        at = _offset(error.problem_mark, len(self.text))
        since = _offset(error.context_mark, at)
        complaint = f"{error.context or ''}: {error.problem or ''}"
        if (tab := self._tab_before(at)) is not None:
            return self.tab(tab)
        if "but got '?'" in complaint:
            return self.question(at)
        if complaint.endswith("found unexpected ':'"):
            return self.tight_colon(at)
        if _BAD_NAME.search(complaint):
            return self.tag(since) if self.text.startswith("!", since) else self.anchor(since)
        if _BAD_ESCAPE.search(complaint):
            return self.escape(found if (found := find_escape(self.text, since, len(self.text))) is not None else at)
        for phrase in _PHRASES:
            if phrase.complaint.search(complaint):
                return self._say(phrase, at, since)
        return self.mistake(at, f"this is not YAML: {complaint.strip(': ')}", "")

    def _say(self, phrase: "_Phrase", at: int, since: int) -> Mistake:
        ended = at >= len(self.text.rstrip())
        found = "the end of the file" if ended else repr(self.text[at])
        opened = self.text[since : since + 1]
        message = phrase.never_closed if ended and opened in _BRACKETS and phrase.never_closed else phrase.message
        said = message.format(found=found, line=self.position(since).line, opened=opened, close=_BRACKETS.get(opened))
        return self.mistake(since if phrase.at_start else at, said, self._hint(at, phrase.hint))

    def _hint(self, offset: int, usual: str) -> str:
        at = self.position(offset)
        return _EXPRESSION_HINT if _LOOSE_EXPRESSION.search(self.line(at.line)[: at.column]) else usual

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_BREAK.finditer(self.text))]

    def _word(self, offset: int) -> str:
        found = re.compile(r"[^\s,\[\]{}]*").match(self.text, offset)
        return shorten(found[0] if found else "")

    def _tab_before(self, offset: int) -> int | None:
        at = self.position(offset)
        line = self.line(at.line)
        column = line.find("\t", 0, len(line) - len(line.lstrip()))
        if column < 0 and line[at.column - 1 : at.column] == "\t":
            column = at.column - 1
        return None if column < 0 else offset - (at.column - 1) + column


def read_source(given: str | bytes, name: str) -> tuple[Source, list[Mistake]]:
    """The text to parse and the mistakes already found; TreeError where there is no sense in parsing it."""
    size = len(given) if isinstance(given, bytes) else len(given.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        message = f"the file has {size:,} bytes, more than {MAX_BYTES:,}"
        raise TreeError(name, (Mistake(message, 1, 1, "Split it into several files."),))
    text = (_decode(given, name) if isinstance(given, bytes) else given).removeprefix("\ufeff")
    source = Source(text, name)
    if unfit := [_unfit(source, found.start()) for found in islice(_UNFIT.finditer(text), MAX_MISTAKES)]:
        raise source.error(unfit)
    return _blank_directives(source)


def find_escape(text: str, start: int, end: int) -> int | None:
    """Where the first escape stands, between two offsets, that can't be read or stored."""
    for found in _ESCAPE.finditer(text, start, end):
        digits = found[1] or found[2] or found[3]
        code = int(digits, 16) if digits else _SHORT_ESCAPES.find(found[4] or "?")  # \\0 is the first: no character
        if code <= 0 or 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
            return found.start()
    return None


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        source = Source(data[: error.start].decode().removeprefix("\ufeff"), name)
        message = f"byte {error.start:,} (0x{data[error.start]:02x}) is not UTF-8"
        raise source.error([source.mistake(len(source.text), message, "Save the file as UTF-8.")]) from error


def _unfit(source: Source, offset: int) -> Mistake:
    code = ord(source.text[offset])
    lost = code == 0 or 0xD800 <= code <= 0xDFFF
    hint = "Remove it." if lost else f'Remove it, or write "\\u{code:04x}" in double quotes.'
    return source.mistake(offset, f"the character U+{code:04X} is not allowed", hint)


def _blank_directives(source: Source) -> tuple[Source, list[Mistake]]:
    # Directives are blanked, not only reported: the parsers disagree on them, and the rest may hold more mistakes.
    preface = _PREFACE.match(source.text)
    end = preface.end() if preface else 0
    mistakes = [
        source.mistake(each.start(), f"directives are refused: {shorten(each[0])}", "Leave this line out.")
        for each in islice(_DIRECTIVE.finditer(source.text, 0, end), MAX_MISTAKES)
    ]
    head = _DIRECTIVE.sub(lambda each: " " * len(each[0]), source.text[:end])
    return Source(head + source.text[end:], source.name), mistakes


def _offset(mark: Mark | None, otherwise: int) -> int:
    return otherwise if mark is None else min(mark.index, otherwise)
