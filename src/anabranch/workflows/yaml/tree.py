"""Parses untrusted YAML into plain values with positions: a strict subset of YAML 1.2 (G4)."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import yaml

from anabranch.canonical import Json
from anabranch.workflows.mistakes import MAX_MISTAKES, Path
from anabranch.workflows.yaml.scalars import OddScalar, resolve, shorten

__all__ = ["FileMistake", "Position", "Tree", "TreeError", "read_tree"]

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 100_000  # keys included: a workflow of 500 nodes has about 25,000

# U+0085, U+2028 and U+2029 end a line in YAML 1.1 and not in 1.2; U+FEFF is a mark only at the very start.
_UNFIT = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_PROPERTY = re.compile(r"([&!][^\s,\[\]{}]*)\s*")
_HEADER = re.compile(r"[|>][-+1-9]*(?: +#| *[\r\n]| *\Z)")
_LOOSE_EXPRESSION = re.compile(r"[:,\[{-]\s*\{\{")
_INEXACT = {"": "\r\n", "'": "\r\n'", '"': "\r\n\\"}  # from the first of these on, text and file run apart
_LETTERS = {"y", "n"}  # as keys they are coordinates and counts, and every reader takes them for text
_ROOT_HINT = "Write keys and values: 'key: value'."
_ODD = object()

Event = Any  # an event of the parser, whose classes have no types


@dataclass(frozen=True, order=True)
class Position:
    """A place in a file; the first line and the first column are 1."""

    line: int
    column: int


@dataclass(frozen=True)
class FileMistake:
    """A mistake at its place in a file."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """As compilers say it, in whole sentences."""
        said = " ".join(part if part[-1] in ".?!…" else f"{part}." for part in (self.message, self.hint) if part)
        return f"{self.file}:{self.line}:{self.column}: {said}"


class TreeError(Exception):
    """A file that can't be read, with all the mistakes that were found in it.

    The tree is what it says apart from them, if they are in single keys and values only.
    """

    def __init__(self, mistakes: list[FileMistake], tree: "Tree | None" = None) -> None:
        self.tree = tree
        ordered = sorted(set(mistakes), key=lambda wrong: (wrong.line, wrong.column, wrong.message))
        self.mistakes = tuple(ordered[:MAX_MISTAKES])
        super().__init__("\n".join(map(str, self.mistakes)))


@dataclass(slots=True)
class _Place:
    """Where a value is: its start, and in the text its offsets and its quotes or block sign; and where its key is."""

    at: Position
    start: int
    end: int
    style: str
    key: Position
    children: "dict[str, _Place] | list[_Place] | None" = None


@dataclass(frozen=True)
class Tree:
    """What a YAML file says, and where in the file it says so."""

    value: dict[str, Json]
    name: str
    _root: _Place = field(repr=False, compare=False)
    _text: str = field(repr=False, compare=False)

    def position(self, path: Path, *, of_key: bool = False) -> Position:
        """Where the value of a path is, or its key; what does not exist is where its nearest parent is."""
        place = self._find(path)[0]
        return place.key if of_key else place.at

    def position_in(self, path: Path, offset: int) -> Position:
        """Where a character of a text is: exact within one line, up to the first escape, and in `|` text."""
        place, value = self._find(path)
        if not isinstance(value, str) or value == "" or place.style == ">":
            return place.at
        offset = max(0, min(offset, len(value)))
        if place.style == "|":
            return self._position_in_block(place, value, offset)
        start = place.start + len(place.style)
        shown = self._text[start : min(start + offset, place.end)]
        exact = shown == value[:offset] and not any(sign in shown for sign in _INEXACT[place.style])
        return Position(place.at.line, place.at.column + len(place.style) + offset) if exact else place.at

    def _position_in_block(self, place: _Place, value: str, offset: int) -> Position:
        offset = min(offset, len(value) - value.endswith("\n"))
        before = value[:offset].split("\n")
        line = place.at.line + len(before)
        text = value.split("\n")[len(before) - 1]
        return Position(line, len(_LINE_BREAK.split(self._text)[line - 1]) - len(text) + len(before[-1]) + 1)

    def _find(self, path: Path) -> tuple[_Place, Json]:
        place = self._root
        value: Any = self.value  # Any: a wrong step is found by taking it
        for step in path:
            try:
                place, value = place.children[step], value[step]  # type: ignore[index]  # as above
            except (KeyError, IndexError, TypeError):
                break
        return place, value


def read_tree(given: str | bytes, name: str) -> Tree:
    """The tree of a YAML file; TreeError with all its mistakes where it is not of our subset."""
    text = _read_text(given, name)
    walk = _Walk(text, name)
    walk.run()
    tree = Tree(walk.root[1], name, walk.root[0], text) if walk.root else None
    if walk.mistakes or tree is None:
        raise TreeError(walk.mistakes, tree if walk.is_readable else None)
    return tree


def _read_text(given: str | bytes, name: str) -> str:
    """The text to parse; TreeError where there is no sense in parsing it."""
    size = len(given) if isinstance(given, bytes) else len(given.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        message = f"the file has {size:,} bytes, more than {MAX_BYTES:,}"
        raise TreeError([FileMistake(name, 1, 1, message, "Split it into several files.")])
    try:
        text = (given.decode() if isinstance(given, bytes) else given).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        at = _end_of(error.object[: error.start].decode().removeprefix("\ufeff"))
        message = f"byte {error.start:,} (0x{error.object[error.start]:02x}) is not UTF-8"
        raise TreeError([FileMistake(name, at.line, at.column, message, "Save the file as UTF-8.")]) from error
    if unfit := [_unfit(text, found.start(), name) for found in islice(_UNFIT.finditer(text), MAX_MISTAKES)]:
        raise TreeError(unfit)
    return text


def _unfit(text: str, offset: int, name: str) -> FileMistake:
    at, code = _end_of(text[:offset]), ord(text[offset])
    lost = code == 0 or 0xD800 <= code <= 0xDFFF
    hint = "Remove it." if lost else f'Remove it, or write "\\u{code:04x}" in double quotes.'
    return FileMistake(name, at.line, at.column, f"the character U+{code:04X} is not allowed", hint)


def _end_of(text: str) -> Position:
    lines = _LINE_BREAK.split(text)
    return Position(len(lines), len(lines[-1]) + 1)


class _Stop(Exception):
    """There is no sense in reading on."""


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come; `key` is the text whose value comes next."""

    value: Any  # a dict or a list, filled by the walk
    place: _Place
    key: str | None = None
    keys: dict[str, Position] = field(default_factory=dict)

    @property
    def awaits_key(self) -> bool:
        return self.key is None and isinstance(self.value, dict)


class _Walk:
    """Builds values from a parser's events, which come one by one: depth is known before anything nests."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.mistakes: list[FileMistake] = []
        self.is_readable = True
        self.root: tuple[_Place, Any] | None = None
        self._open: list[_Open] = []
        self._values = 0

    def run(self) -> None:
        """Take every event, or as many as make sense; a syntax error is raised at once."""
        with contextlib.suppress(_Stop):
            for event in self._events():
                match event:
                    case yaml.DocumentStartEvent():
                        self._start_document(event)
                    case yaml.AliasEvent():
                        self._refuse_property(_at(event.start_mark), f"*{event.anchor}")
                        self._put(None, self._place(event))
                    case yaml.ScalarEvent():
                        self._take_scalar(event, self._place(event))
                    case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                        self._start_collection(event, self._place(event))
                    case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                        ended = self._open.pop()
                        self._put(ended.value, ended.place)
                    case _:
                        pass
            self._check_root()

    def _events(self) -> Iterator[Event]:
        loader = yaml.CSafeLoader(self.text)
        try:
            while loader.check_event():
                yield loader.get_event()
        except yaml.MarkedYAMLError as error:
            raise TreeError([self._syntax(error)]) from error
        finally:
            loader.dispose()

    def _syntax(self, error: Any) -> FileMistake:  # of the parser, always with a place
        """A parser's complaint; a quote or a key that is never ended is where it begins."""
        context, problem, mark = error.context or "", str(error.problem), error.problem_mark
        if "quoted scalar" in context and "end of stream" in problem:
            problem, mark, hint = "this quote is never closed", error.context_mark, "Close it."
        elif "simple key" in context:
            problem, mark, hint = "this key has no colon", error.context_mark, "Put a colon and a space after a key."
        elif self.text[mark.index : mark.index + 1] == "\t":
            problem, hint = "a tab is used to indent", "Indent with spaces."
        elif _LOOSE_EXPRESSION.search(self.text[mark.index - mark.column : mark.index + 1]):
            hint = 'Quote an expression: "{{ inputs.name }}".'
        else:
            hint = "Check the indentation, the brackets and the quotes."
            if context and error.context_mark.line < mark.line:
                problem += f" {context} that begins on line {error.context_mark.line + 1}"
        at = _at(mark)
        return FileMistake(self.name, at.line, at.column, problem, hint)

    def _place(self, event: Event) -> _Place:
        """Where a value is, behind its anchor and tag, which are refused."""
        at, start = _at(event.start_mark), event.start_mark.index
        self._values += 1
        if self._values > MAX_VALUES:
            self._wrong(at, f"the file holds more than {MAX_VALUES:,} values", "Split it into several files.")
            raise _Stop
        while found := _PROPERTY.match(self.text, start) if event.anchor or getattr(event, "tag", None) else None:
            self._refuse_property(at, found[1])
            at, start = Position(at.line, at.column + len(found[0])), found.end()
        return _Place(at, start, event.end_mark.index, getattr(event, "style", None) or "", at)

    def _refuse_property(self, at: Position, shown: str) -> None:
        if shown.startswith("!"):
            self._wrong(at, f"tags are refused: {shorten(shown)}", "Leave it out; quote what is text.")
        else:
            self._wrong(at, f"anchors and aliases are refused: {shorten(shown)}", "Write the value out in each place.")

    def _start_document(self, event: Event) -> None:
        at = _at(event.start_mark)
        if self.root is not None:
            self._wrong(at, "a second document begins here", "Keep one document in a file.")
            raise _Stop
        if event.version or event.tags:
            self._wrong(at, "directives are refused", "Leave this line out.")

    def _start_collection(self, event: Event, place: _Place) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._wrong(place.at, f"this is nested deeper than {MAX_DEPTH} levels", "Make it flatter.")
            raise _Stop
        if self._open and self._open[-1].awaits_key:
            self._refuse_complex_key(place)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        place.children = type(value)()
        self._open.append(_Open(value, place))

    def _refuse_complex_key(self, place: _Place) -> None:
        if self.text[place.start - 1 : place.start + 1] == "{{":
            at = Position(place.at.line, place.at.column - 1)
            self._wrong(at, "this expression is not quoted", 'Quote it: "{{ inputs.name }}".')
        else:
            self._wrong(place.at, "a key is a mapping or a list, not text", "Write a text as key.")

    def _take_scalar(self, event: Event, place: _Place) -> None:
        if "\0" in event.value:
            self._wrong(place.at, "this text holds U+0000, which can't be stored", "Leave it out.")
        if place.style in ("|", ">") and not _HEADER.match(self.text, place.start):
            self._wrong(place.at, "after | or > only +, -, a digit or a comment may follow", "Begin on the next line.")
        if self._open and self._open[-1].awaits_key:
            self._take_key(self._open[-1], event.value, place)
        else:
            value = event.value if place.style else self._resolve(event.value, place.at)
            self._put(event.value if value is _ODD else value, place)

    def _take_key(self, mapping: _Open, text: str, place: _Place) -> None:
        if not place.style and text.lower() not in _LETTERS:
            self._check_plain_key(text, place.at)
        if text in mapping.keys:
            line = mapping.keys[text].line
            said = f"the key {shorten(text)!r} is already on line {line}"
            self._wrong(place.at, said, "Keep one of them.", is_readable=True)
        mapping.keys.setdefault(text, place.at)
        mapping.key = text

    def _check_plain_key(self, text: str, at: Position) -> None:
        if text == "<<":
            self._wrong(at, "merge keys (<<) are refused", "Write the keys out in each place.")
        elif text == "":
            self._wrong(at, "a key is missing here", 'Write a key before the colon, or "" for an empty one.')
        elif not isinstance(value := self._resolve(text, at), str) and value is not _ODD:
            self._wrong(at, f"the key {shorten(text)} is {_kind(value)}, not text", "Quote it.")

    def _resolve(self, plain: str, at: Position) -> Any:  # JSON, or nothing that can be used
        try:
            return resolve(plain)
        except OddScalar as odd:
            self._wrong(at, odd.message, odd.hint, is_readable=True)
            return _ODD

    def _put(self, value: Any, place: _Place) -> None:
        if not self._open:
            self.root = (place, value)
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
            parent.place.children.append(place)  # type: ignore[union-attr]  # a list has a list of places
        elif parent.key is None:
            parent.key = ""  # it was refused as a key, and its value comes next
        else:
            place.key = parent.keys.get(parent.key, place.at)
            parent.value.setdefault(parent.key, value)  # what comes under the same key again is refused there
            parent.place.children.setdefault(parent.key, place)  # type: ignore[union-attr]  # and a mapping a dict
            parent.key = None

    def _check_root(self) -> None:
        start = Position(1, 1)
        place, value = self.root or (_Place(start, 0, 0, "", start), None)
        if value is None and not place.style and place.start == place.end:
            self._wrong(start, "the file is empty", _ROOT_HINT)
        elif not isinstance(value, dict):
            self._wrong(place.at, f"the file is {_kind(value)}, not a mapping", _ROOT_HINT)

    def _wrong(self, at: Position, message: str, hint: str, *, is_readable: bool = False) -> None:
        self.is_readable = self.is_readable and is_readable
        self.mistakes.append(FileMistake(self.name, at.line, at.column, message, hint))
        if len(self.mistakes) >= 2 * MAX_MISTAKES:  # twice: some are found two times
            self.is_readable = False
            raise _Stop


def _at(mark: Any) -> Position:  # of the parser
    return Position(mark.line + 1, mark.column + 1)


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", int: "a number", float: "a number", list: "a list", type(None): "null"}
    return kinds.get(type(value), "text")
