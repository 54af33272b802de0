"""When a workflow runs by itself, as its file declares it."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field
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
from anabranch.workflows.rules import Check, Model, declared
from anabranch.workflows.schedules.cron import read_cron, read_zone

__all__ = ["SAMPLE_TICK", "CatchUp", "Overlap", "Schedule", "fill_inputs", "find_schedule_mistakes", "mix_inputs"]

TICK_FIELDS = ("scheduled_at", "interval_start")
SAMPLE_TICK: Mapping[str, Json] = dict.fromkeys(TICK_FIELDS, "2000-01-01T00:00:00Z")


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


Cron = Annotated[str, Check(_of_text(read_cron), {"type": "string"})]
Zone = Annotated[str, Check(_of_text(read_zone), {"type": "string"})]


@dataclass(frozen=True)
class Schedule(Model):
    """When jobs are made, and with which inputs."""

    cron: Cron = Field(
        description="Minute, hour, day of month, month and day of week, in the time zone.", examples=["30 2 * * *"]
    )
    timezone: Zone = declared("UTC", "A name of the IANA time zone database.", examples=["Europe/Berlin"])
    inputs: Annotated[
        Mapping[str, Json] | None, Check(values.read_any, {"type": "object", "additionalProperties": True})
    ] = declared(
        None, "The inputs; text in them may hold the times of the tick.", examples=[{"day": "{{ job.scheduled_at }}"}]
    )
    overlap: Overlap = declared(Overlap.SKIP, "What happens to a tick while the job of an earlier one goes on.")
    catch_up: CatchUp = declared(CatchUp.LATEST, "Which of the ticks that were missed get a job.")


def find_schedule_mistakes(schedule: Schedule, inputs: Mapping[str, Input] | None) -> Iterator[Mistake]:
    """What is wrong with the inputs of a workflow's schedule; `inputs` are those that the workflow declares."""
    given = schedule.inputs or {}
    mistakes = list(_expression_mistakes(given))
    yield from mistakes
    if mistakes:
        return
    try:
        filled = fill_inputs(given, SAMPLE_TICK)
    except ExpressionError as error:
        yield _mistake_of(error)
        return
    if inputs is None:
        return
    for found in find_input_mistakes(inputs, filled, "an input")[1]:
        place = ("schedule", "inputs", found.name) if found.name in given else ("schedule",)
        yield Mistake(place, f"the schedule's input {found}", of_value=found.name in inputs and found.name in given)


def fill_inputs(inputs: Mapping[str, Json], tick: Mapping[str, Json]) -> JsonObject:
    """The inputs of a tick's job, with its times."""
    filled = evaluate(read_template(dict(inputs)), lambda reference: tick[str(reference.path[0])])
    return filled if isinstance(filled, dict) else {}


def mix_inputs(parameters: Mapping[str, Json], inputs: Mapping[str, Json], tick: Mapping[str, Json]) -> JsonObject:
    """The checked parameters of a schedule, with the times of a tick where its inputs ask for them."""
    of_tick = {name: value for name, value in inputs.items() if not isinstance(read_template(value).part, Fixed)}
    return {**parameters, **fill_inputs(of_tick, tick)}


def _expression_mistakes(inputs: Mapping[str, Json]) -> Iterator[Mistake]:
    value = dict(inputs)
    errors: list[ExpressionError] = list(find_mistakes(value)) or list(
        check_all(read_template(value), _type_of, hint=lambda _: "Write job.scheduled_at or job.interval_start.")
    )
    yield from map(_mistake_of, errors)


def _mistake_of(error: ExpressionError) -> Mistake:
    return Mistake(("schedule", "inputs", *error.where), error.message, error.hint, error.offset)


def _type_of(reference: Reference) -> Any:  # the name of a type, or None
    return "string" if reference.root == "job" and reference.path[0] in TICK_FIELDS else None
