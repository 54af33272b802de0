"""The keys of a workflow file: what each may hold, and how it is read. Every mistake is noted, and reading goes on."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from anabranch.engine.canonical import Json
from anabranch.engine.validator import Mistake, Path, nearest
from anabranch.engine.workflow import Backoff, Fold, Folding, OnFailure, Retry, Tolerance

__all__ = ["Reader"]

Value = TypeVar("Value")


class Reader:
    """A mapping of a file, at its path; it notes what is wrong with it in a list that all readers of a file share."""

    def __init__(self, given: Mapping[str, Json], path: Path, mistakes: list[Mistake]) -> None:
        """Of what stands there."""
        self.given = given
        self.path = path
        self._mistakes = mistakes

    def note(self, message: str, hint: str = "", *at: str | int) -> None:
        """Note a mistake, here or deeper."""
        self._mistakes.append(Mistake((*self.path, *at), message, hint))

    def allow(self, known: Sequence[str], what: str) -> None:
        """Note every key that is not among these."""
        for key in self.given:
            if key not in known:
                hint = nearest(key, known) or f"Known: {', '.join(known)}."
                self._mistakes.append(Mistake((*self.path, key), f"{what} has no key {key!r}", hint))

    def require(self, key: str, what: str) -> bool:
        """Whether a key is there; note it when it is not."""
        if self.given.get(key) is None:
            self.note(f"{what} needs {key!r}")
            return False
        return True

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        return self._read(key, str, "text", default)

    def whole(self, key: str, low: int, high: int = 2**31 - 1) -> int | None:
        """A whole number within bounds."""
        value = self.given.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            upper = f" to {high}" if high < 2**31 - 1 else " or more"
            self.note(f"{key} is a whole number of {low}{upper}, not {_show(value)}", "", key)
            return None
        return value

    def seconds(self, key: str, *, zero: bool = False) -> timedelta | None:
        """A time in seconds."""
        value = self.given.get(key)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not isinstance(value, int | float) or value < 0 or (value == 0 and not zero):
            self.note(f"{key} is a number of seconds above 0, not {_show(value)}", "", key)
            return None
        return timedelta(seconds=min(value, 10**9))

    def choice(self, key: str, kind: type[Value], default: Value) -> Value:
        """One of a few words."""
        value = self.given.get(key)
        if value is None:
            return default
        words = [str(word) for word in kind]  # type: ignore[attr-defined]  # an enum of words
        if value not in words:
            hint = nearest(str(value), words)
            self.note(f"{key} is one of {', '.join(words)}, not {_show(value)}", hint, key)
            return default
        return kind(value)  # type: ignore[call-arg]  # as above

    def mapping(self, key: str) -> dict[str, Json] | None:
        """A mapping."""
        value = self.given.get(key)
        if value is None or isinstance(value, dict):
            return value
        self.note(f"{key} is a mapping, not {_show(value)}", "", key)
        return None

    def names(self, key: str) -> tuple[str, ...]:
        """The name of a node, or a list of names."""
        value = self.given.get(key)
        if value is None:
            return ()
        listed = value if isinstance(value, list) else [value]
        if not all(isinstance(name, str) for name in listed):
            self.note(f"{key} is the name of a node or a list of names, not {_show(value)}", "", key)
            return ()
        return tuple(dict.fromkeys(map(str, listed)))

    def inner(self, key: str) -> "Reader | None":
        """A reader of a mapping inside."""
        value = self.mapping(key)
        return None if value is None else Reader(value, (*self.path, key), self._mistakes)

    def listed(self, key: str) -> "list[Reader]":
        """Readers of the mappings in a list."""
        value = self.given.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.note(f"{key} is a list of mappings, not {_show(value)}", "", key)
            return []
        return [
            Reader(each, (*self.path, key, number), self._mistakes)
            for number, each in enumerate(value)
            if isinstance(each, dict)
        ]

    def retry(self) -> Retry | None:
        """How often and when a task is tried again."""
        inner = self.inner("retry")
        if inner is None:
            return None
        inner.allow(("max_attempts", "backoff", "initial_delay_seconds", "max_delay_seconds"), "retry")
        return Retry(
            inner.whole("max_attempts", 1, 1000),
            inner.choice("backoff", Backoff, Backoff.EXPONENTIAL),
            _or(inner.seconds("initial_delay_seconds", zero=True), Retry.initial_delay),
            _or(inner.seconds("max_delay_seconds", zero=True), Retry.max_delay),
        )

    def tolerance(self) -> Tolerance:
        """How many tasks may fail: a number, or a share as text."""
        value = self.given.get("tolerate")
        if isinstance(value, str) and value.endswith("%"):
            share = value[:-1].strip()
            if share.replace(".", "", 1).isdecimal() and float(share) <= 100:
                return Tolerance(percent=float(share))
        elif value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
            return Tolerance(value or 0)
        self.note(f"tolerate is a number of tasks or a share like 5 %, not {_show(value)}", "", "tolerate")
        return Tolerance()

    def on_failure(self) -> OnFailure:
        """What a failure means for the job."""
        return self.choice("on_failure", OnFailure, OnFailure.FAIL)

    def folding(self) -> tuple[Folding, ...]:
        """What a fan-in makes: one fold of the results, or several by name, each of a field."""
        given = self.given.get("aggregation", Fold.COLLECT)
        if isinstance(given, dict):
            return tuple(part for name, value in given.items() if (part := self._named_fold(name, value)))
        fold = self.choice("aggregation", Fold, Fold.COLLECT)
        return (Folding("items" if fold in (Fold.COLLECT, Fold.CONCAT) else str(fold), fold),)

    def _named_fold(self, name: str, value: Json) -> Folding | None:
        words = ", ".join(Fold)
        if isinstance(value, dict) and len(value) == 1:
            (fold, field) = next(iter(value.items()))
            if fold in list(Fold) and isinstance(field, str) and field:
                return Folding(name, Fold(fold), field)
        self.note(f"{name} is a fold and its field, like {{sum: size}}, not {_show(value)}", f"Folds: {words}.",
                  "aggregation", name)  # fmt: skip
        return None

    def _read(self, key: str, kind: type[Value], noun: str, default: Value) -> Value:
        value = self.given.get(key)
        if value is None:
            return default
        if not isinstance(value, kind):
            self.note(f"{key} is {noun}, not {_show(value)}", "Quote it." if noun == "text" else "", key)
            return default
        return value


def _or(value: timedelta | None, default: timedelta) -> timedelta:
    return default if value is None else value


def _show(value: Json) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
