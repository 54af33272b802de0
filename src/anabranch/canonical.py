"""JSON as the engine stores and hashes it: what PostgreSQL can't hold is refused here, where it enters."""

import hashlib
import json
import math
import re

from typing_extensions import TypeAliasType

__all__ = ["Json", "JsonObject", "canonical", "decode", "encode", "sha256"]

Json = TypeAliasType("Json", "bool | int | float | str | list[Json] | dict[str, Json] | None")
JsonObject = dict[str, Json]  # of no fixed shape: parameters, outputs, JSON Schemas, STAC documents

MAX_DEPTH = 64
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def encode(value: object) -> str:
    """JSON text of a value that PostgreSQL can hold; ValueError says what it can't, and where."""
    _require_sound(value)
    return _ENCODER.encode(value)


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, exact integers."""
    _require_sound(value)
    return _CANONICAL.encode(value)


def decode(text: str | bytes, *, unique_keys: bool = False) -> Json:
    """The value of a JSON text; ValueError where encode would refuse it, or where an object has a key twice."""
    hook = _require_unique if unique_keys else None
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")  # as json does
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float, object_pairs_hook=hook)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    if not _is_plainly_sound(text):
        _require_sound(value)
    return value


def sha256(text: str) -> str:
    """The SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_plainly_sound(text: str) -> bool:
    """Whether a JSON text that was read holds no value that is not sound: far quicker than to look at each."""
    if text.count("{") + text.count("[") > MAX_DEPTH or "\\u" in text:
        return False
    return text.isascii() or _UNSTORABLE.search(text) is None


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:80]} is {value}, which JSON can't hold")
    return value


def _require_unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"an object has the key {twice[:80]!r} twice")
    return made


def _require_sound(value: object) -> None:
    # Every result passes here: the quick look has no names to build, the slow one says what is wrong and where.
    if not _is_sound(value, 0):
        _explain(value, "$", 0)


def _is_sound(value: object, depth: int) -> bool:
    if isinstance(value, str):  # a state, too, which is a word
        return _UNSTORABLE.search(value) is None
    kind = type(value)
    if kind is int or kind is bool or value is None:
        return True
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]  # it is a number
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        return all(
            type(key) is str and _UNSTORABLE.search(key) is None and _is_sound(item, depth + 1)
            for key, item in value.items()  # type: ignore[attr-defined]  # it is a dict
        )
    if kind is not list and kind is not tuple:
        return False
    return all(_is_sound(item, depth + 1) for item in value)  # type: ignore[attr-defined]  # it is a list or a tuple


def _explain(value: object, where: str, depth: int) -> None:
    if isinstance(value, str):
        _explain_text(value, where)
    elif isinstance(value, dict | list | tuple) and depth >= MAX_DEPTH:
        raise ValueError(f"{where[:80]} is nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{where} has a key that is not text: {key!r}")
            _explain_text(key, where)
            _explain(item, f"{where}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _explain(item, f"{where}[{index}]", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, which JSON can't hold")
    elif value is not None and not isinstance(value, bool | int | float):
        raise ValueError(f"{where} is a {type(value).__name__}, which JSON can't hold")


def _explain_text(text: str, where: str) -> None:
    if found := _UNSTORABLE.search(text):
        raise ValueError(f"{where} holds the character U+{ord(found[0]):04X}, which can't be stored")
