"""Finds where values begin and end in JSON text, block by block, without parsing it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Block", "follows_features", "locate", "read_blocks"]

BLOCK_BYTES = 2 * 2**20
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_QUOTE = ord('"')
_COLON, _BACKSLASH = ord(":"), ord("\\")
_SPACE = b" \t\r\n"
_FEATURES = b'"features"'
_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("{"), ord("[")]] = 1
_STEPS[[ord("}"), ord("]")]] = -1


@dataclass(frozen=True)
class Block:
    """Some bytes of a file: its brackets outside strings, and how deep each of them leads to."""

    offset: int
    data: bytes
    brackets: "npt.NDArray[np.int64]"
    depths: "npt.NDArray[np.int64]"


def read_blocks(path: Path) -> Iterator[Block]:
    """The blocks of a file; an escape is never cut in two."""
    offset, depth, inside, rest = 0, 0, 0, b""
    with path.open("rb") as file:
        while data := rest + file.read(BLOCK_BYTES - len(rest)):
            rest = b"\\" if _cuts_escape(data) and len(data) > 1 else b""
            data = data[: len(data) - len(rest)]
            letters = np.frombuffer(_ESCAPED.sub(b"  ", data), np.uint8)
            # In ASCII, one bit makes { of [ and } of ], so that two comparisons find all four.
            folded = letters | 0x20
            marks = np.flatnonzero((letters == _QUOTE) | (folded == ord("{")) | (folded == ord("}")))
            found = letters[marks]
            quotes = found == _QUOTE
            within = (np.cumsum(quotes) + inside) & 1
            kept = (within == 0) & ~quotes
            depths = np.cumsum(_STEPS[found[kept]], dtype=np.int64) + depth
            yield Block(offset, data, marks[kept], depths)
            offset += len(data)
            depth = int(depths[-1]) if len(depths) else depth
            inside = int(within[-1]) if len(within) else inside


def follows_features(data: bytes | bytearray, end: int) -> bool:
    """Whether the name before a value is `features`; looks only at what is just before it."""
    end = _skip_spaces(data, end) - 1
    if end < 0 or data[end] != _COLON:
        return False
    end = _skip_spaces(data, end)
    start = end - len(_FEATURES)
    return start >= 0 and data[start:end] == _FEATURES and (not start or data[start - 1] != _BACKSLASH)


def _skip_spaces(data: bytes | bytearray, end: int) -> int:
    while end and data[end - 1] in _SPACE:
        end -= 1
    return end


def locate(path: Path, offset: int) -> str:
    """The line and column of a byte, as an editor shows them."""
    line, start, done = 1, 0, 0
    with path.open("rb") as file:
        while (piece := file.read(min(BLOCK_BYTES, offset - done))) and done < offset:
            if newlines := piece.count(b"\n"):
                line += newlines
                start = done + piece.rindex(b"\n") + 1
            done += len(piece)
        file.seek(start)
        before = file.read(min(offset - start, BLOCK_BYTES)).decode("utf-8", "replace").removeprefix("\ufeff")
    return f"line {line}, column {len(before) + 1}"


def _cuts_escape(data: bytes) -> bool:
    return (len(data) - len(data.rstrip(b"\\"))) % 2 == 1
