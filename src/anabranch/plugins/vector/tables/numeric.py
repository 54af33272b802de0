"""Exact decimal numbers: text, and PostgreSQL's binary form of base 10,000."""

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import Permanent
from anabranch.plugins.vector.tables.binary_arrays import cut, fixed_width, join, offsets_of, unaligned, valid_values

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["decode_numeric", "encode_numeric"]

MAX_WHOLE_DIGITS = 131_072
MAX_FRACTION_DIGITS = 16_383
PLAIN = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)$"
EXPONENT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,6}")
SPECIAL = {"NaN": 0xC000, "Infinity": 0xD000, "-Infinity": 0xF000}
SPELLINGS = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity", "-inf": "-Infinity", "-infinity": "-Infinity"}
NEGATIVE = 0x4000
HEAD = {"groups": ">u2", "weight": ">i2", "sign": ">u2", "scale": ">u2"}
HEAD_BYTES = 8
POWERS = np.array([1000, 100, 10, 1])
ZEROS = pa.array([b"", b"0", b"00", b"000"], pa.large_binary())


def encode_numeric(texts: pa.Array) -> pa.Array:
    """Numbers as PostgreSQL receives them, of text like `-12.50`, `1e-7`, `NaN` or `Infinity`."""
    signs, wholes, fractions, specials = _take_apart(texts)
    whole_digits, fraction_digits = (_lengths(part) for part in (wholes, fractions))
    _check(texts, whole_digits, fraction_digits)
    before, after = -whole_digits % 4, -fraction_digits % 4
    digits = join(ZEROS.take(pa.array(before)), wholes, fractions, ZEROS.take(pa.array(after)))
    heads = np.empty(len(texts), np.dtype(list(HEAD.items())))
    heads["groups"] = np.diff(offsets_of(digits)) // 4
    heads["weight"] = (whole_digits + before) // 4 - 1
    heads["sign"] = np.where(specials, specials, np.where(signs, NEGATIVE, 0))
    heads["scale"] = fraction_digits
    characters = np.frombuffer(digits.buffers()[2], np.uint8, offsets_of(digits)[-1])
    groups = ((characters.reshape(-1, 4) - ord("0")) @ POWERS).astype(">u2")
    ends = offsets_of(digits) // 2
    joined = join(fixed_width(heads), cut(pa.py_buffer(groups), ends[:-1], ends[1:]))
    return pc.if_else(texts.is_valid(), joined, pa.scalar(None, pa.large_binary()))


def decode_numeric(values: pa.Array) -> pa.Array:
    """The text of numbers in PostgreSQL's binary form, with as many digits after the point as they have there."""
    buffer, starts = values.buffers()[2], offsets_of(values)[:-1]
    valid = valid_values(values)
    if valid is not None:
        decoded = decode_numeric(values.drop_null())
        return decoded.take(pa.array(np.cumsum(valid) - 1, mask=~valid))
    if len(values) == 0:
        return pa.array([], pa.string())
    heads = {
        name: unaligned(buffer, dtype)[starts + 2 * place].astype(np.int64)
        for place, (name, dtype) in enumerate(HEAD.items())
    }
    characters, begins, whole_groups = _spread(buffer, starts, heads)
    points = begins + 4 * whole_groups
    wholes = pc.utf8_ltrim(cut(characters, begins, points).cast(pa.large_string()), "0").cast(pa.large_binary())
    fractions = cut(characters, points, points + heads["scale"])
    minus = heads["sign"] == NEGATIVE
    text = join(
        _where(minus, b"-"), _where(_lengths(wholes) == 0, b"0"), wholes, _where(heads["scale"] > 0, b"."), fractions
    ).cast(pa.string())
    for name, sign in SPECIAL.items():
        text = pc.if_else(pa.array(heads["sign"] == sign), name, text)
    return text


def _take_apart(texts: pa.Array) -> "tuple[npt.NDArray[np.bool_], pa.Array, pa.Array, npt.NDArray[np.int64]]":
    """Which are negative, the digits before and after the point, and the code of those that are no numbers."""
    parts = pc.extract_regex(texts, PLAIN)
    odd = pc.and_(texts.is_valid(), parts.is_null())
    if pc.any(odd).as_py():
        found = pc.unique(texts.filter(odd))
        spelled = pa.array([_spell_out(text) for text in found.to_pylist()], pa.string())
        texts = pc.if_else(odd, spelled.take(pc.index_in(texts, found)), texts)
        parts = pc.extract_regex(texts, PLAIN)
    special = pc.fill_null(pc.index_in(texts, pa.array(list(SPECIAL))), len(SPECIAL)).to_numpy()
    codes = np.array([*SPECIAL.values(), 0])[special]
    signs, wholes, fractions = (parts.field(name).cast(pa.large_binary()) for name in ("sign", "whole", "fraction"))
    negative = pc.fill_null(pc.equal(signs, b"-"), False).to_numpy(zero_copy_only=False)
    # A null, or what is no number, has the digit zero, so that each value has a group of digits.
    zero = pc.if_else(parts.is_valid(), wholes, pa.scalar(b"0", pa.large_binary()))
    return negative, zero, pc.if_else(parts.is_valid(), fractions, pa.scalar(b"", pa.large_binary())), codes


def _spell_out(text: str) -> str:
    """A number with an exponent written without one, and what is no number as PostgreSQL writes it."""
    if text.lower() in SPELLINGS:
        return SPELLINGS[text.lower()]
    if not EXPONENT.fullmatch(text):
        raise Permanent(f"{text[:50]!r} is no decimal number", code="vector.values")
    return format(Decimal(text), "f")


def _check(texts: pa.Array, wholes: "npt.NDArray[np.int64]", fractions: "npt.NDArray[np.int64]") -> None:
    for bad, problem in (
        (wholes + fractions == 0, "is no decimal number"),
        (wholes > MAX_WHOLE_DIGITS, f"has over {MAX_WHOLE_DIGITS} digits before the point"),
        (fractions > MAX_FRACTION_DIGITS, f"has over {MAX_FRACTION_DIGITS} digits after the point"),
    ):
        if bad.any():
            raise Permanent(f"{texts[int(bad.argmax())].as_py()[:50]!r} {problem}", code="vector.values")


def _spread(
    buffer: pa.Buffer, starts: "npt.NDArray[np.int64]", heads: "dict[str, npt.NDArray[np.int64]]"
) -> "tuple[pa.Buffer, npt.NDArray[np.int64], npt.NDArray[np.int64]]":
    """All digits as characters, those of leading and trailing zeros too; where each number begins, and its groups."""
    whole_groups = np.maximum(heads["weight"] + 1, 1)
    ends = np.cumsum(whole_groups + -(-heads["scale"] // 4))
    begins = np.concatenate([[0], ends[:-1]])
    spread = np.zeros(ends[-1], np.int64)
    counts = heads["groups"]
    order = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    digits = unaligned(buffer, ">u2")[np.repeat(starts + HEAD_BYTES, counts) + 2 * order]
    spread[np.repeat(begins + whole_groups - 1 - heads["weight"], counts) + order] = digits
    characters = (spread[:, None] // POWERS % 10 + ord("0")).astype(np.uint8)
    return pa.py_buffer(np.ascontiguousarray(characters)), 4 * begins, whole_groups


def _lengths(values: pa.Array) -> "npt.NDArray[np.int64]":
    found: npt.NDArray[np.int64] = pc.binary_length(values).to_numpy()
    return found


def _where(flags: "npt.NDArray[np.bool_]", text: bytes) -> pa.Array:
    return pa.array([b"", text], pa.large_binary()).take(pa.array(flags.astype(np.int64)))
