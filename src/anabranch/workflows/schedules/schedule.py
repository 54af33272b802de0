"""When a workflow runs by itself, as its file declares it."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic.dataclasses import dataclass

from anabranch.canonical import Json, JsonObject
from anabranch.workflows import values
from anabranch.workflows.expressions import (
    ExpressionError,
    Reference,
    check_all,
    evaluate,
    find_mistakes,
    read_template,
)
from anabranch.workflows.expressions.templates import Fixed
from anabranch.workflows.inputs import Input, find_input_mistakes
from anabranch.workflows.mistakes import Mistake
from anabranch.workflows.rules import Check, Model, Whole, declared
from anabranch.workflows.schedules.cron import read_cron, read_zone
from anabranch.workflows.schedules.watch import WATCH_SECONDS, Existing, describe_sample, read_folder, read_pattern

__all__ = [
    "CatchUp",
    "Facts",
    "Overlap",
    "Schedule",
    "fill_inputs",
    "find_schedule_mistakes",
    "mix_inputs",
]

Facts = Mapping[str, Mapping[str, Json]]
TICK_FIELDS = ("scheduled_at", "interval_start")
SAMPLE_TIME = "2000-01-01T00:00:00Z"
OF_CRON, OF_WATCH = ("timezone", "overlap", "catch_up"), ("pattern", "stable_seconds", "poll_seconds", "existing")


class Overlap(StrEnum):
    """The rule for ticks that come while the job of an earlier one goes on."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_PREVIOUS = "cancel_previous"


class CatchUp(StrEnum):
    """The rule for ticks that were missed."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"


def _of_text(read: Callable[[str], str]) -> Callable[[Any], Any]:
    """A rule for texts; pydantic refuses what is no text."""
    return lambda value: read(value) if isinstance(value, str) else value


Cron = Annotated[str | None, Check(_of_text(read_cron), {"type": "string"})]
Folder = Annotated[str | None, Check(_of_text(read_folder), {"type": "string"})]
Pattern = Annotated[str | None, Check(_of_text(read_pattern), {"type": "string"})]
Zone = Annotated[str, Check(_of_text(read_zone), {"type": "string"})]


@dataclass(frozen=True)
class Schedule(Model):
    """When jobs are made, and with which inputs: at times, or for each new object of a folder that it watches."""

    cron: Cron = declared(
        None, "Minute, hour, day of month, month and day of week, in the time zone.", examples=["30 2 * * *"]
    )
    timezone: Zone = declared("UTC", "A name of the IANA time zone database.", examples=["Europe/Berlin"])
    inputs: Annotated[
        Mapping[str, Json] | None, Check(values.read_any, {"type": "object", "additionalProperties": True})
    ] = declared(
        None,
        "The inputs; text in them may hold the times of the tick, or what is known of the object.",
        examples=[{"day": "{{ job.scheduled_at }}"}],
    )
    overlap: Overlap = declared(Overlap.SKIP, "What happens to a tick while the job of an earlier one goes on.")
    catch_up: CatchUp = declared(CatchUp.LATEST, "Which of the ticks that were missed get a job.")
    watch: Folder = declared(
        None,
        "In place of `cron`: a folder whose new and changed objects get a job each.",
        examples=["silver://incoming"],
    )
    pattern: Pattern = declared(None, "What the names of watched objects are like.", examples=["*.tif"])
    stable_seconds: Annotated[int, Whole(*WATCH_SECONDS["stable_seconds"])] = declared(
        10, "How long a watched object must be unchanged before it gets its job."
    )
    poll_seconds: Annotated[int, Whole(*WATCH_SECONDS["poll_seconds"])] = declared(
        10, "How long after a look at the folder the next one begins."
    )
    existing: Existing = declared(Existing.SKIP, "Whether objects that were there before get jobs.")

    @property
    def sample(self) -> Facts:
        """What expressions in its inputs may name: the times of a tick, or an object; with values to check them."""
        if self.watch is None:
            return {"job": dict.fromkeys(TICK_FIELDS, SAMPLE_TIME)}
        return {"object": describe_sample(self.watch, self.pattern, SAMPLE_TIME)}


def find_schedule_mistakes(schedule: Schedule, inputs: Mapping[str, Input] | None) -> Iterator[Mistake]:
    """What is wrong with the inputs of a workflow's schedule; `inputs` are those that the workflow declares."""
    if (schedule.cron is None) == (schedule.watch is None):
        yield Mistake(
            ("schedule",), "a schedule has either cron or watch", "Write cron: 30 2 * * *, or watch: a folder."
        )
        return
    for key in OF_WATCH if schedule.watch is None else OF_CRON:
        if getattr(schedule, key) != getattr(UNSET, key):
            kind, other = ("cron", "watch") if schedule.watch is None else ("watch", "cron")
            yield Mistake(
                ("schedule", key), f"{key} means nothing in a schedule with {kind}", f"It belongs to {other}."
            )
    given = schedule.inputs or {}
    sample = schedule.sample
    mistakes = list(_expression_mistakes(given, sample))
    yield from mistakes
    if mistakes:
        return
    try:
        filled = fill_inputs(given, sample)
    except ExpressionError as error:
        yield _mistake_of(error)
        return
    if inputs is None:
        return
    for found in find_input_mistakes(inputs, filled, "an input")[1]:
        place = ("schedule", "inputs", found.name) if found.name in given else ("schedule",)
        yield Mistake(place, f"the schedule's input {found}", of_value=found.name in inputs and found.name in given)


def fill_inputs(inputs: Mapping[str, Json], facts: Facts) -> JsonObject:
    """The inputs of a job, with what expressions name of its tick or its object."""
    filled = evaluate(read_template(dict(inputs)), lambda reference: facts[reference.root][str(reference.path[0])])
    return filled if isinstance(filled, dict) else {}


def mix_inputs(parameters: Mapping[str, Json], inputs: Mapping[str, Json], facts: Facts) -> JsonObject:
    """The checked parameters of a schedule, with facts of a tick or an object where its inputs ask for them."""
    asked = {name: value for name, value in inputs.items() if not isinstance(read_template(value).part, Fixed)}
    return {**parameters, **fill_inputs(asked, facts)}


def _expression_mistakes(inputs: Mapping[str, Json], sample: Facts) -> Iterator[Mistake]:
    def type_of(reference: Reference) -> Any:  # the name of a type, or None
        value = sample.get(reference.root, {}).get(str(reference.path[0]) if reference.path else "")
        return None if value is None else "integer" if isinstance(value, int) else "string"

    known = [f"{root}.{name}" for root, names in sample.items() for name in names]
    hint = f"Write {', '.join(known[:-1])} or {known[-1]}."
    value = dict(inputs)
    errors: list[ExpressionError] = list(find_mistakes(value)) or list(
        check_all(read_template(value), type_of, hint=lambda _: hint)
    )
    yield from map(_mistake_of, errors)


def _mistake_of(error: ExpressionError) -> Mistake:
    return Mistake(("schedule", "inputs", *error.where), error.message, error.hint, error.offset)


UNSET = Schedule()
