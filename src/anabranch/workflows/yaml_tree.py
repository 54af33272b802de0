"""YAML as strangers write it, read into plain values with positions: a strict subset of YAML 1.2 (G4)."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from anabranch.canonical import Json
from anabranch.workflows.yaml_scalars import OddScalar, resolve, shorten
from anabranch.workflows.yaml_source import MAX_MISTAKES, Mistake, Position, Source, TreeError, find_escape, read_source

__all__ = ["Mistake", "Position", "Tree", "TreeError", "read_tree"]

MAX_DEPTH = 32
MAX_VALUES = 100_000  # keys included: a workflow of 500 nodes has about 25,000

_HEADER = re.compile(r"[|>][-+]*([1-9]*)[-+]*(?: +#[^\r\n]*| *)(?=[\r\n]|\Z)")
_PROPERTY = re.compile(r"[&!][^\s,\[\]{}]*\s*")
_COLON = re.compile(r"\s*:")
_TAB_FIRST = re.compile(r"(?: *[\r\n])+ *\t")
_TIGHT_COLON = re.compile(r":[,\[\]{}]")
_LINE = re.compile(r"[^\r\n]+")
_INEXACT = {"": "\r\n", "'": "\r\n'", '"': "\r\n\\"}  # from the first of these on, text and file run apart
_LETTERS = {"y", "n"}  # as keys they are coordinates and counts, and every reader takes them for text
_ROOT_HINT = "Write keys and values: 'key: value'."
_ODD = object()


class _PureLoader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]  # Any where the stubs are not installed
    """The parser where libyaml is absent."""

    def save_possible_simple_key(self) -> None:
        # It looks at each open bracket again for each token. What is nested so deep is refused in any case.
        if self.flow_level <= MAX_DEPTH:
            super().save_possible_simple_key()  # type: ignore[no-untyped-call,unused-ignore]  # as above


_LOADER: type[Any] = getattr(yaml, "CSafeLoader", _PureLoader)  # Any: two classes with no common parent


@dataclass(slots=True)
class _Place:
    """Where a value stands: offsets of its start and end and of its key's start, and its quotes or block sign."""

    start: int
    end: int
    style: str
    key: int
    children: "dict[str, _Place] | list[_Place] | None" = None


@dataclass(frozen=True)
class Tree:
    """What a YAML file says, and where in the file it says so."""

    value: dict[str, Json]
    name: str
    _root: _Place = field(repr=False, compare=False)
    _source: Source = field(repr=False, compare=False)

    def position(self, path: tuple[str | int, ...], *, of_key: bool = False) -> Position:
        """Where the value of a path stands, or its key; what does not exist is where its nearest parent is."""
        place = self._find(path)[0]
        return self._source.position(place.key if of_key else place.start)

    def position_in(self, path: tuple[str | int, ...], offset: int) -> Position:
        """Where a character of a text stands: exact within one line, up to the first escape, and in `|` text."""
        place, value = self._find(path)
        if not isinstance(value, str) or value == "" or place.style == ">":
            return self._source.position(place.start)
        offset = max(0, min(offset, len(value)))
        if place.style == "|":
            return self._position_in_block(place, value, offset)
        start = place.start + len(place.style)
        shown = self._source.text[start : min(start + offset, place.end)]
        exact = shown == value[:offset] and not any(sign in shown for sign in _INEXACT[place.style])
        return self._source.position(start + offset if exact else place.start)

    def _position_in_block(self, place: _Place, value: str, offset: int) -> Position:
        offset = min(offset, len(value) - value.endswith("\n"))
        before = value[:offset].split("\n")
        line = self._source.position(place.start).line + len(before)
        text = value.split("\n")[len(before) - 1]
        return Position(line, len(self._source.line(line)) - len(text) + len(before[-1]) + 1)

    def _find(self, path: tuple[str | int, ...]) -> tuple[_Place, Json]:
        place = self._root
        value: Any = self.value  # Any: a wrong step is found by taking it
        for step in path:
            try:
                place, value = place.children[step], value[step]  # type: ignore[index]  # as above
            except (KeyError, IndexError, TypeError):
                break
        return place, value


def read_tree(text: str | bytes, name: str) -> Tree:
    """The tree of a YAML file; TreeError with all its mistakes where it is not of our subset."""
    source, mistakes = read_source(text, name)
    walk = _Walk(source, mistakes)
    walk.run()
    if walk.mistakes or walk.root is None:
        raise source.error(walk.mistakes)
    place, value = walk.root
    return Tree(value, name, place, source)


class _Stop(Exception):
    """There is no sense in reading on."""


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come; `key` is the text whose value comes next."""

    value: Any  # a dict or a list, filled by the walk
    place: _Place
    key: str | None = None
    key_place: _Place = field(default_factory=lambda: _Place(0, 0, "", 0))
    keys: dict[str, int] = field(default_factory=dict)

    @property
    def awaits_key(self) -> bool:
        return self.key is None and isinstance(self.value, dict)


class _Walk:
    """Builds values from a parser's events, which come one by one: depth is known before anything nests."""

    def __init__(self, source: Source, mistakes: list[Mistake]) -> None:
        self.source = source
        self.mistakes = mistakes
        self.root: tuple[_Place, Any] | None = None
        self._open: list[_Open] = []
        self._scalars: list[tuple[int, int, str]] = []
        self._values = 0
        self._has_tabs = "\t" in source.text

    def run(self) -> None:
        """Take every event, or as many as make sense; a syntax error is raised at once."""
        take = {
            yaml.DocumentStartEvent: self._start_document,
            yaml.AliasEvent: self._take_alias,
            yaml.ScalarEvent: self._take_scalar,
            yaml.MappingStartEvent: self._start_collection,
            yaml.SequenceStartEvent: self._start_collection,
            yaml.MappingEndEvent: self._end_collection,
            yaml.SequenceEndEvent: self._end_collection,
        }
        with contextlib.suppress(_Stop):
            for event in _events(self.source):
                if type(event) in take:
                    take[type(event)](event)
            self._check_root()
        self._check_tabs()

    def _start_document(self, event: Any) -> None:
        if self.root is not None:
            self._wrong(event.start_mark.index, "a second document begins here", "Keep one document in a file.")
            raise _Stop

    def _take_alias(self, event: Any) -> None:
        self._add(self.source.anchor(event.start_mark.index))
        self._put(None, _Place(event.start_mark.index, event.end_mark.index, "", 0))

    def _start_collection(self, event: Any) -> None:
        start = self._begin(event.start_mark.index)
        if len(self._open) >= MAX_DEPTH:
            self._wrong(start, f"this is nested deeper than {MAX_DEPTH} levels", "Make it flatter.")
            raise _Stop
        if self._open and self._open[-1].awaits_key:
            self._refuse_complex_key(start)
        style = "[" if event.flow_style else ""
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(value, _Place(start, start, style, start, type(value)())))

    def _end_collection(self, _event: Any) -> None:
        ended = self._open.pop()
        self._put(ended.value, ended.place)

    def _take_scalar(self, event: Any) -> None:
        start = self._begin(event.start_mark.index)
        place = _Place(start, event.end_mark.index, event.style or "", start)
        self._check_text(place)
        if self._open and self._open[-1].awaits_key:
            self._take_key(self._open[-1], event.value, place)
        elif place.style:
            self._put(event.value, place)
        else:
            self._put(self._resolve(event.value, place.start), place)

    def _take_key(self, mapping: _Open, text: str, place: _Place) -> None:
        if not place.style and text.lower() not in _LETTERS:
            self._check_plain_key(text, place.start)
        if text in mapping.keys:
            line = self.source.position(mapping.keys[text]).line
            self._wrong(place.start, f"the key {shorten(text)!r} is already on line {line}", "Keep one of them.")
        mapping.keys.setdefault(text, place.start)
        mapping.key, mapping.key_place = text, place

    def _check_plain_key(self, text: str, start: int) -> None:
        if text == "<<":
            self._wrong(start, "merge keys (<<) are refused", "Write the keys out in each place.")
        elif text == "":
            self._wrong(start, "a key is missing here", 'Write a key before the colon, or "" for an empty one.')
        elif not isinstance(value := self._resolve(text, start), str) and value is not _ODD:
            self._wrong(start, f"the key {shorten(text)} is {_kind(value)}, not text", "Quote it.")

    def _refuse_complex_key(self, start: int) -> None:
        if self.source.text[start - 1 : start + 1] == "{{":
            self._wrong(start - 1, "this expression is not quoted", 'Quote it: "{{ inputs.name }}".')
        else:
            self._wrong(start, "a key is a mapping or a list, not text", "Write a text as key.")

    def _resolve(self, plain: str, start: int) -> Any:
        try:
            return resolve(plain)
        except OddScalar as odd:
            self._wrong(start, odd.message, odd.hint)
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
            self._put_under(parent, parent.key, value, place)

    def _put_under(self, parent: _Open, key: str, value: Any, place: _Place) -> None:
        place.key = parent.key_place.start
        if value is None and place.start == place.end:
            # The parsers place what is not there differently: for us it follows its colon.
            colon = _COLON.match(self.source.text, parent.key_place.end)
            place.start = place.end = colon.end() if colon else parent.key_place.end
        parent.value[key] = value
        parent.place.children[key] = place  # type: ignore[index,call-overload]  # a mapping has a dict of places
        parent.key = None

    def _begin(self, start: int) -> int:
        self._values += 1
        if self._values > MAX_VALUES:
            self._wrong(start, f"the file holds more than {MAX_VALUES:,} values", "Split it into several files.")
            raise _Stop
        text = self.source.text
        while found := _PROPERTY.match(text, start):
            self._add(self.source.anchor(start) if found[0][0] == "&" else self.source.tag(start))
            start = found.end()
        return start

    def _check_text(self, place: _Place) -> None:
        """Raise what one parser takes for a syntax error, and the other does not."""
        text, start = self.source.text, place.start
        if place.style in ("|", ">"):
            if not (header := _HEADER.match(text, start)):
                raise self.source.error([self.source.block_header(start)])
            start = header.end()
            if not header[1] and (tab := _TAB_FIRST.match(text, start, place.end)):
                raise self.source.error([self.source.tab(tab.end() - 1)])
        elif place.style == '"' and (escape := find_escape(text, start, place.end)) is not None:
            raise self.source.error([self.source.escape(escape)])
        elif not place.style and self._open and self._open[-1].place.style:
            self._check_plain_in_brackets(start, place.end)
        if self._has_tabs:
            self._scalars.append((start, place.end, place.style))

    def _check_plain_in_brackets(self, start: int, end: int) -> None:
        if (found := self.source.text.find("?", start - 1, end)) >= 0:
            raise self.source.error([self.source.question(found)])
        if start < end and _TIGHT_COLON.match(self.source.text, end):
            raise self.source.error([self.source.tight_colon(end)])

    def _check_root(self) -> None:
        place, value = self.root or (_Place(0, 0, "", 0), None)
        if value is None and not place.style and place.start == place.end:
            self._wrong(0, "the file is empty", _ROOT_HINT)
        elif not isinstance(value, dict):
            self._wrong(place.start, f"the file is {_kind(value)}, not a mapping", _ROOT_HINT)

    def _check_tabs(self) -> None:
        if self._has_tabs and (tab := _find_tab(self.source.text, self._scalars)) >= 0:
            raise self.source.error([self.source.tab(tab)])

    def _wrong(self, offset: int, message: str, hint: str) -> None:
        self._add(self.source.mistake(offset, message, hint))

    def _add(self, mistake: Mistake) -> None:
        self.mistakes.append(mistake)
        if len(self.mistakes) >= 2 * MAX_MISTAKES:  # twice: some are found two times
            raise _Stop


def _events(source: Source) -> Iterator[Any]:
    loader = _LOADER(source.text)
    try:
        while loader.check_event():
            yield loader.get_event()
    except yaml.MarkedYAMLError as error:
        raise source.error([source.syntax(error)]) from error
    except (OverflowError, ValueError) as error:  # the pure parser, of an escape beyond Unicode, behind its \U
        raise source.error([source.escape(loader.index - 2)]) from error
    finally:
        loader.dispose()


def _find_tab(text: str, scalars: list[tuple[int, int, str]]) -> int:
    """Where the first tab stands that is not in quotes, block text or a comment; -1 if there is none."""
    begin = 0
    for start, end, style in [*scalars, (len(text), len(text), "")]:
        for line in _LINE.finditer(text, begin, start):
            tab = text.find("\t", line.start(), line.end())
            if tab >= 0 and text.find("#", line.start(), tab) < 0:
                return tab
        if not style and (tab := text.find("\t", start, end)) >= 0:
            return tab
        begin = end
    return -1


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", int: "a number", float: "a number", list: "a list", type(None): "null"}
    return kinds.get(type(value), "text")
