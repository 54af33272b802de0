"""The elements of a large JSON array, found in its file without decoding it: a fan-out goes through them one by one."""

import json
import math
import mmap
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import BinaryIO, overload

from anabranch.canonical import Json

__all__ = ["Items", "find_items"]

_TEXT = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_TEXT + rb'|[\[\]{}:,]|[^\s"\[\]{}:,]+', re.DOTALL)
_BRACKET = re.compile(_TEXT + rb"|[\[\]{}]", re.DOTALL)
OPENING, CLOSING = b"[{", b"]}"


class Items(Sequence[Json]):
    """Elements by their places in a file; each is decoded when it is asked for, and its text is never copied whole."""

    def __init__(self, data: mmap.mmap, starts: "array[int]", ends: "array[int]", batch: int | None = None) -> None:
        """Made by `find_items`; in batches, each item is an array of so many elements."""
        self._data = data
        self._starts = starts
        self._ends = ends
        self._batch = batch

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return len(self._data)

    def in_batches(self, size: int) -> "Items":
        """The same elements, so many in an array."""
        return Items(self._data, self._starts, self._ends, size)

    def __len__(self) -> int:
        """How many items there are."""
        return math.ceil(len(self._starts) / (self._batch or 1))

    @overload
    def __getitem__(self, place: int) -> Json: ...
    @overload
    def __getitem__(self, place: slice) -> list[Json]: ...
    def __getitem__(self, place: int | slice) -> Json | list[Json]:
        """One of them, or a list of some."""
        wanted = range(len(self))[place]
        if isinstance(wanted, range):
            return [self[each] for each in wanted]
        return json.loads(self._text(wanted))  # type: ignore[no-any-return]  # JSON

    def arrays(self, most: int) -> Iterator[tuple[int, str]]:
        """All items as JSON arrays of about `most` bytes, or of one item, each with the place of its first."""
        first, size, texts = 0, 0, list[bytes]()
        for place in range(len(self)):
            text = self._text(place)
            if texts and size + len(text) > most:
                yield first, f"[{b','.join(texts).decode()}]"
                first, size, texts = place, 0, []
            texts.append(text)
            size += len(text)
        if texts:
            yield first, f"[{b','.join(texts).decode()}]"

    def _text(self, place: int) -> bytes:
        if not self._batch:
            return self._data[self._starts[place] : self._ends[place]]
        first = place * self._batch
        last = min(first + self._batch, len(self._starts)) - 1
        return b"[" + self._data[self._starts[first] : self._ends[last]] + b"]"


def find_items(file: BinaryIO, path: Sequence[str | int], most: int) -> Items:
    """The elements of the array at a path of a JSON file, one more than `most` of them at most.

    LookupError when there is no such thing, ValueError when it is not an array.
    """
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    at = 0
    for step in path:
        at = _enter(data, at, step)
    token = _next(data, at)
    if data[token.start()] != ord("["):
        raise ValueError("it is not an array")
    starts, ends = array("Q"), array("Q")
    for start, end in _elements(data, token.end()):
        starts.append(start)
        ends.append(end)
        if len(starts) > most:
            break
    return Items(data, starts, ends)


def _enter(data: mmap.mmap, at: int, step: str | int) -> int:
    """Where the value begins that a step leads to."""
    token = _next(data, at)
    opens = data[token.start()]
    if isinstance(step, int) and opens == ord("["):
        for place, (start, _end) in enumerate(_elements(data, token.end())):
            if place == step:
                return start
    if isinstance(step, str) and opens == ord("{"):
        for key, start in _members(data, token.end()):
            if key == step:
                return start
    raise LookupError(step)


def _members(data: mmap.mmap, at: int) -> Iterator[tuple[str, int]]:
    """The keys of an object that is open, and where their values begin."""
    token = _next(data, at)
    while data[token.start()] not in CLOSING:
        if data[token.start()] == ord(","):
            token = _next(data, token.end())
        key = str(json.loads(token.group()))
        value = _next(data, _next(data, token.end()).end())  # behind the colon
        yield key, value.start()
        token = _next(data, _end(data, value))


def _elements(data: mmap.mmap, at: int) -> Iterator[tuple[int, int]]:
    """Where the elements of an array that is open begin and end."""
    token = _next(data, at)
    while data[token.start()] not in CLOSING:
        if data[token.start()] == ord(","):
            token = _next(data, token.end())
        end = _end(data, token)
        yield token.start(), end
        token = _next(data, end)


def _end(data: mmap.mmap, first: "re.Match[bytes]") -> int:
    """Where the value ends that begins with this token."""
    if data[first.start()] not in OPENING:
        return first.end()
    depth = 1
    for found in _BRACKET.finditer(data, first.end()):
        sign = data[found.start()]
        depth += (sign in OPENING) - (sign in CLOSING)
        if not depth:
            return found.end()
    raise ValueError("the JSON ends too soon")


def _next(data: mmap.mmap, at: int) -> "re.Match[bytes]":
    if (token := _TOKEN.search(data, at)) is None:
        raise ValueError("the JSON ends too soon")
    return token
