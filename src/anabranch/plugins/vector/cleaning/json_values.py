"""Values of `jsonb`: texts of JSON that PostgreSQL accepts."""

import json
import math
import re
from base64 import b64encode
from collections import defaultdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["to_json"]

MAX_NUMBER_CHARS = 400
_SHORT_EXPONENT = re.compile(r"^[^eE]*([eE][+-]?0*[0-9]{1,3})?$")
Json = dict[str, "Json"] | list["Json"] | str | float | int | bool | None


def to_json(array: pa.Array) -> tuple[pa.Array, "Mapping[str, list[int]]"]:
    """The texts, and the places of those that were repaired, by what was wrong: a text that is fine stays the same."""
    is_text = not kinds.is_nested(array.type)
    found: dict[str, list[int]] = defaultdict(list)
    texts: list[str | None] = []
    for place, scalar in enumerate(array):
        repair = _Repair()
        value = repair.read(scalar)
        texts.append(None if value is None else repair.text_of(str(value)) if is_text else repair.write(value))
        for what in repair.found:
            found[what].append(place)
    return pa.array(texts, pa.string()), found


class _Repair:
    """Writes one value, and collects what was wrong with it."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def read(self, scalar: pa.Scalar) -> object:
        """The value in Python; null if a text in it is not UTF-8."""
        try:
            return scalar.as_py()
        except UnicodeDecodeError:
            self.found.add("not_utf8")
            return None

    def text_of(self, text: str) -> str:
        """A text of JSON, if it is; else it becomes a string of JSON."""
        if "\0" not in text:
            try:
                value = json.loads(text, parse_constant=self._constant, parse_float=self._number)
            except (ValueError, RecursionError):
                self.found.add("json_invalid")
                return self.write(text)
            if not self.found and "\\u" not in text:
                return text
            return self.write(value) if self.found else self._write_if_repaired(text, value)
        self.found.add("json_invalid")
        return self.write(text)

    def write(self, value: object) -> str:
        """A value as JSON."""
        return json.dumps(self._clean(value), ensure_ascii=False, allow_nan=False)

    def _write_if_repaired(self, text: str, value: object) -> str:
        written = self.write(value)
        return written if self.found else text

    def _constant(self, _name: str) -> None:
        self.found.add("json_not_finite")

    def _number(self, text: str) -> float | None:
        """A number that is not whole; PostgreSQL has no more than 16,383 digits after the point."""
        value = float(text)
        if not math.isfinite(value):
            self.found.add("json_not_finite")
            return None
        if len(text) > MAX_NUMBER_CHARS or not _SHORT_EXPONENT.search(text):
            self.found.add("json_number")
        return value

    def _clean(self, value: object) -> Json:
        match value:
            case None | bool() | int():
                return value
            case float():
                if math.isfinite(value):
                    return value
                self.found.add("json_not_finite")
                return None
            case str():
                return self._clean_text(value)
            case dict():
                return {self._clean_text(str(key)): self._clean(one) for key, one in value.items()}
            case list() | tuple():
                return [self._clean(one) for one in value]
            case bytes():
                return b64encode(value).decode()
            case _:
                return str(value)

    def _clean_text(self, text: str) -> str:
        plain = text.replace("\0", "").encode("utf-8", "replace").decode()
        if plain != text:
            self.found.add("json_text")
        return plain
