"""The keys of a workflow file: what each may hold, and how it is read. Every mistake is noted, and reading goes on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar, get_args

from anabranch.canonical import Json
from anabranch.errors import DefinitionError, InputError
from anabranch.workflows.bounds import (
    MAX_ATTEMPTS,
    MAX_WHOLE,
    PRIORITIES,
    find_seconds_mistake,
    find_whole_mistake,
)
from anabranch.workflows.definition import Backoff, Fold, Folding, Kind, OnFailure, Retry, Tolerance
from anabranch.workflows.inputs import FORMATS, Input, InputType, check_inputs, read_input
from anabranch.workflows.mistakes import MAX_MISTAKES, Mistake, Path, guess, nearest, quote
from anabranch.workflows.validation import NAME, NAME_HINT

__all__ = [
    "BRANCH_KEYS",
    "DEPENDS_KEYS",
    "INPUT_KEYS",
    "MAX_KEY",
    "NESTED",
    "NODE_KEYS",
    "RETRY_KEYS",
    "RUNNING",
    "WORKFLOW_KEYS",
    "Notes",
    "Reader",
]

WORKFLOW_KEYS = ("workflow_id", "name", "version", "description", "priority", "inputs", "nodes", "output")
INPUT_KEYS = ("type", "required", "default", "min", "max", "choices", "enum", "format", "description")
EVERY_NODE = ("type", "description", "next", "depends_on", "when", "on_failure")
RUNNING = (
    "handler", "queue", "params", "retry", "priority", "timeout_seconds", "queue_timeout_seconds",
    "heartbeat_timeout_seconds", "total_timeout_seconds", "limit",
)  # fmt: skip
NESTED = ("workflow", "params", "retry", "priority", "limit")
NODE_KEYS: dict[Kind, tuple[str, ...]] = {
    Kind.TASK: (*EVERY_NODE, *RUNNING),
    Kind.START: ("type", "description", "next"),
    Kind.END: ("type", "description", "depends_on", "output"),
    Kind.CONDITIONAL: ("type", "description", "depends_on", "when", "condition_field", "branches"),
    Kind.FAN_OUT: (*EVERY_NODE, "source", "task", "max_items", "concurrency", "batch_size", "tolerate"),
    Kind.FAN_IN: (*EVERY_NODE, "aggregation", "queue"),
    Kind.GATE: (*EVERY_NODE, "timeout_seconds"),
    Kind.WAIT: (*EVERY_NODE, "duration_seconds", "until"),
    Kind.WORKFLOW: (*EVERY_NODE, *NESTED),
}
RETRY_KEYS = ("max_attempts", "backoff", "initial_delay_seconds", "max_delay_seconds")
DEPENDS_KEYS = ("all_of", "any_of")
BRANCH_KEYS = ("condition", "default", "next")
EDGES = ("type", "next", "depends_on", "branches", *DEPENDS_KEYS)  # what says which node comes after which

MAX_KEY = 255

Value = TypeVar("Value")


@dataclass
class Notes:
    """What is wrong with a file, as far as it has been read; `is_whole` says that every edge in it was understood."""

    mistakes: list[Mistake] = field(default_factory=list)
    count: int = 0
    is_whole: bool = True

    def add(self, mistake: Mistake) -> None:
        """Keep a mistake, or only count it when there are enough."""
        self.count += 1
        if len(self.mistakes) < MAX_MISTAKES:
            self.mistakes.append(mistake)


class Reader:
    """A mapping of a file, at its path; it notes what is wrong with it where all readers of the file do."""

    def __init__(self, given: Mapping[str, Json], path: Path, notes: Notes) -> None:
        """Of what stands there."""
        self.given = given
        self.path = path
        self.notes = notes
        self._misspelt: set[str] = set()

    def note(self, message: str, hint: str = "", *at: str | int) -> None:
        """Note a mistake at a key, here or deeper."""
        self.notes.add(Mistake((*self.path, *at), message, hint))

    def refuse(self, message: str, hint: str = "", *at: str | int) -> None:
        """Note a mistake at a value; one that names nodes leaves an edge unread."""
        self.notes.add(Mistake((*self.path, *at), message, hint, of_value=True))
        if any(step in EDGES for step in at):
            self.notes.is_whole = False

    def allow(self, known: Sequence[str], what: str, elsewhere: Callable[[str], str] | None = None) -> bool:
        """Whether every key is among these; `elsewhere` says where one belongs that is known in another place."""
        unknown = [key for key in self.given if key not in known]
        for key in unknown if self.notes.count < MAX_MISTAKES else ():
            close = guess(key, (*known, *EDGES))
            if close in EDGES:
                self.notes.is_whole = False
            if close in known:
                self._misspelt.add(str(close))
            hint = (elsewhere(key) if elsewhere else "") or nearest(key, known) or f"Known: {', '.join(known)}."
            self.note(f"{what} has no key {quote(key)}", hint, key)
        return not unknown

    def require(self, key: str, what: str, hint: str = "") -> None:
        """Note that a key is missing, unless it was only misspelt."""
        if self.given.get(key) is None and not self.is_misspelt(key):
            self.note(f"{what} needs {key!r}", hint, *([key] if key in self.given else []))
            if key in EDGES:
                self.notes.is_whole = False

    def is_misspelt(self, key: str) -> bool:
        """Whether the key is not there, but one that is near to it."""
        return key in self._misspelt and key not in self.given

    def text(self, key: str) -> str:
        """A text."""
        value = self.given.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        hint = "" if isinstance(value, list | dict) else "Quote it."
        self.refuse(f"{key} is text, not {_show(value)}", hint, key)
        return ""

    def word(self, key: str) -> str:
        """A text that is not empty where it is given."""
        if self.given.get(key) == "":
            self.refuse(f"{key} is empty", "", key)
        return self.text(key)

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self.given.get(key)
        if value is not None and not isinstance(value, bool):
            self.refuse(f"{key} is true or false, not {_show(value)}", "", key)
        return value is True

    def number(self, key: str) -> float | None:
        """A number."""
        value = self.given.get(key)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        self.refuse(f"{key} is a number, not {_show(value)}", "", key)
        return None

    def whole(self, key: str, low: int, high: int = MAX_WHOLE) -> int | None:
        """A whole number within bounds."""
        value = self.given.get(key)
        if value is None:
            return None
        if mistake := find_whole_mistake(key, value, low, high):
            self.refuse(f"{mistake}, not {_show(value)}", "", key)
            return None
        return value  # type: ignore[return-value]  # it is whole

    def priority(self) -> int | None:
        """How urgent it is: 1 comes first."""
        return self.whole("priority", *PRIORITIES)

    def seconds(self, key: str, *, zero: bool = False) -> timedelta | None:
        """A time in seconds."""
        value = self.given.get(key)
        if value is None:
            return None
        if mistake := find_seconds_mistake(key, value, zero=zero):
            self.refuse(f"{mistake}, not {_show(value)}", "", key)
            return None
        return timedelta(seconds=value)  # type: ignore[arg-type]  # it is a number

    def duration(self, key: str) -> Json:
        """How long something lasts, in seconds; or an expression that tells it."""
        value = self.given.get(key)
        if isinstance(value, str) and "{{" in value:
            return value
        if isinstance(value, str):
            hint = "Leave out the quotes." if _is_number(value) else 'Write an expression: "{{ inputs.seconds }}".'
            self.refuse(f"{key} is a number of seconds, not {_show(value)}", hint, key)
            return None
        return None if self.seconds(key, zero=True) is None else value

    def time(self, key: str) -> Json:
        """A time with its zone, or an expression that tells it."""
        value = self.given.get(key)
        if value is None or (isinstance(value, str) and "{{" in value):
            return value
        try:
            read = datetime.fromisoformat(value) if isinstance(value, str) else None
        except ValueError:
            read = None
        if read is not None and read.tzinfo is not None:
            return value
        wrong = f"{key} is a time, not {_show(value)}" if read is None else f"{key} has no time zone: {_show(value)}"
        self.refuse(wrong, 'Write it like "2030-01-31T12:00:00Z".', key)
        return None

    def key(self, key: str) -> Json:
        """A key that tasks share, or an expression that gives it."""
        value = self.word(key)
        if "{{" not in value and len(value) > MAX_KEY:
            self.refuse(f"{key} has at most {MAX_KEY} characters, and this has {len(value):,}", "", key)
            return None
        return value or None

    def choice(self, key: str, kind: type[Value], default: Value) -> Value:
        """One of a few words; a misspelt one is taken for what it is near to."""
        value = self.given.get(key)
        if value is None:
            return default
        words = [str(word) for word in kind]  # type: ignore[attr-defined]  # an enum of words
        if value in words:
            return kind(value)  # type: ignore[call-arg]  # as above
        close = guess(value, words) if isinstance(value, str) else None
        hint = f"Did you mean {close!r}?" if close else ""
        self.notes.add(
            Mistake((*self.path, key), f"{key} is one of {', '.join(words)}, not {_show(value)}", hint, of_value=True)
        )
        return kind(close) if close else default  # type: ignore[call-arg]  # as above

    def mapping(self, key: str, hint: str = "") -> dict[str, Json] | None:
        """A mapping."""
        value = self.given.get(key)
        if value is None or isinstance(value, dict):
            return value
        self.refuse(f"{key} is a mapping, not {_show(value)}", hint, key)
        return None

    def names(self, key: str) -> dict[str, Path]:
        """The nodes that a key names, one or a list, and where each name stands."""
        value = self.given.get(key)
        listed = enumerate(value) if isinstance(value, list) else () if value is None else [(None, value)]
        found: dict[str, Path] = {}
        for number, name in listed:
            at: Path = (key,) if number is None else (key, number)
            if not isinstance(name, str):
                wanted = (
                    f"{key} is the name of a node or a list of names" if number is None else "a node's name is text"
                )
                self.refuse(f"{wanted}, not {_show(name)}", "", *at)
            elif name in found:
                self.refuse(f"{quote(name)} stands twice in {key}", "Keep one of them.", *at)
            else:
                found[name] = (*self.path, *at)
        return found

    def inner(self, key: str, hint: str = "") -> "Reader | None":
        """A reader of a mapping inside."""
        value = self.mapping(key, hint)
        return None if value is None else Reader(value, (*self.path, key), self.notes)

    def listed(self, key: str, what: str) -> "list[Reader]":
        """Readers of the mappings in a list."""
        value = self.given.get(key)
        if value is not None and not isinstance(value, list):
            self.refuse(f"{key} is a list, not {_show(value)}", "Begin each item with '- '.", key)
        readers = []
        for number, each in enumerate(value if isinstance(value, list) else ()):
            if isinstance(each, dict):
                readers.append(Reader(each, (*self.path, key, number), self.notes))
            else:
                self.refuse(f"{what} is a mapping, not {_show(each)}", "", key, number)
        return readers

    def retry(self) -> Retry | None:
        """How often and when a task is tried again."""
        inner = self.inner("retry", "Write {max_attempts: 3}.")
        if inner is None:
            return None
        inner.allow(RETRY_KEYS, "retry")
        attempts = inner.whole("max_attempts", 1, MAX_ATTEMPTS)
        backoff = inner.choice("backoff", Backoff, Backoff.EXPONENTIAL)
        first = inner.seconds("initial_delay_seconds", zero=True)
        longest = inner.seconds("max_delay_seconds", zero=True)
        if first is not None and longest is not None and longest < first:
            inner.refuse("max_delay_seconds is less than initial_delay_seconds", "", "max_delay_seconds")
        return Retry(attempts, backoff, _or(first, Retry.initial_delay), _or(longest, Retry.max_delay))

    def tolerance(self) -> Tolerance:
        """How many tasks may fail: a number, or a share as text."""
        value = self.given.get("tolerate")
        if isinstance(value, str) and value.endswith("%"):
            share = value[:-1].strip()
            if share.isascii() and share.replace(".", "", 1).isdecimal():
                if float(share) <= 100:
                    return Tolerance(percent=float(share))
                self.refuse(f"tolerate is a share of at most 100 %, not {_show(value)}", "", "tolerate")
                return Tolerance()
        elif value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_WHOLE):
            return Tolerance(value or 0)
        self.refuse(f"tolerate is a number of tasks or a share like 5 %, not {_show(value)}", "", "tolerate")
        return Tolerance()

    def on_failure(self) -> OnFailure:
        """What a failure means for the job."""
        return self.choice("on_failure", OnFailure, OnFailure.FAIL)

    def folding(self) -> tuple[Folding, ...]:
        """What a fan-in makes: one fold of the results, or several by name, each of a field, in the order of names."""
        given = self.given.get("aggregation")
        if isinstance(given, dict):
            return tuple(part for name, value in sorted(given.items()) if (part := self._named_fold(name, value)))
        fold = self.choice("aggregation", Fold, Fold.COLLECT)
        return (Folding("items" if fold in (Fold.COLLECT, Fold.CONCAT) else str(fold), fold),)

    def input(self, name: str) -> Input:
        """An input that is declared here."""
        before = self.notes.count
        self.allow(INPUT_KEYS, "an input")
        if not NAME.fullmatch(name):
            self.note(f"{quote(name)} can't be an input's name", NAME_HINT)
        self.text("description")
        self.flag("required")
        low, high = self.number("min"), self.number("max")
        if low is not None and high is not None and low > high:
            self.refuse("min is more than max", "", "min")
        self._input_type()
        self._choices()
        self._format()
        return self._declare(name) if self.notes.count == before else Input()

    def _input_type(self) -> None:
        given = self.word("type")
        try:
            kind = read_input("x", {"type": given} if given else {}).type
        except DefinitionError:
            known = ", ".join(get_args(InputType))
            hint = nearest(given, get_args(InputType))
            self.refuse(f"the type of an input is one of {known}, not {_show(given)}", hint, "type")
            return
        for key in ("min", "max"):
            if kind in ("boolean", "object") and self.given.get(key) is not None:
                noun = "a boolean" if kind == "boolean" else "an object"
                self.note(f"{noun} has no {key}", "min and max bound numbers, and the length of text and arrays.", key)

    def _choices(self) -> None:
        for key in ("choices", "enum"):
            value = self.given.get(key)
            if value is not None and (not isinstance(value, list) or not value):
                self.refuse(f"{key} is a list of values, not {_show(value) if value else 'an empty one'}", "", key)
        if self.given.get("choices") is not None and self.given.get("enum") is not None:
            self.note("choices and enum are the same thing", "Keep one of them.", "enum")

    def _format(self) -> None:
        given = self.word("format")
        if given and given not in FORMATS:
            told = f"the format of an input is {' or '.join(FORMATS)}, not {_show(given)}"
            self.refuse(told, nearest(given, list(FORMATS)), "format")
        elif given and self.given.get("type") not in ("string", "str"):
            self.note("only a string has a format", "Write type: string.", "format")

    def _declare(self, name: str) -> Input:
        given = {key: value for key, value in self.given.items() if value is not None or key == "default"}
        lists: dict[str, Json] = {key: given.pop(key) for key in ("choices", "enum") if key in given}
        default = {"default": given.pop("default")} if "default" in given else {}
        plain = read_input(name, given)
        for key, values in lists.items():
            for number, value in enumerate(values if isinstance(values, list) else ()):
                self._check_value(name, plain, value, "this choice of", key, number)
        declared = read_input(name, {**given, **lists})
        if default.get("default") is None or self._check_value(
            name, declared, default["default"], "the default of", "default"
        ):
            return read_input(name, {**given, **lists, **default})
        return declared

    def _check_value(self, name: str, declared: Input, value: Json, what: str, *at: str | int) -> bool:
        try:
            check_inputs({name: declared}, {name: value})
        except InputError as error:
            self.refuse(f"{what} {error.message}", "", *at)
            return False
        return True

    def _named_fold(self, name: str, value: Json) -> Folding | None:
        if name in ("count", "failed"):
            self.note(f"{name!r} can't be folded into: every fan_in has it", "Use another name.", "aggregation", name)
            return None
        if isinstance(value, dict) and len(value) == 1:
            fold, part = next(iter(value.items()))
            if fold in list(Fold) and isinstance(part, str) and part:
                return Folding(name, Fold(fold), part)
            if fold not in list(Fold):
                hint = nearest(fold, [str(known) for known in Fold]) or f"Folds: {', '.join(Fold)}."
                self.note(f"there is no fold {quote(fold)}", hint, "aggregation", name, fold)
                return None
        wanted = f"{quote(name)} in aggregation is a fold and its field, like {{sum: size}}"
        self.refuse(f"{wanted}, not {_show(value)}", f"Folds: {', '.join(Fold)}.", "aggregation", name)
        return None


def _or(value: timedelta | None, default: timedelta) -> timedelta:
    return default if value is None else value


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdecimal()


def _show(value: Json) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return quote(value) if isinstance(value, str) else f"{value}"
