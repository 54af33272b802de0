"""What callers execute, as the standard writes it, and the parameters of the job that it is."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from anabranch.canonical import Json
from anabranch.strict_model import StrictModel

__all__ = ["ExecuteRequest", "ResponseForm", "read_inputs"]

JsonValue = Any  # JSON of any shape, checked when the body was parsed
ResponseForm = Literal["raw", "document"]
# What may stand beside a value to qualify it; with anything else, an object is a value itself.
QUALIFIERS = frozenset({"value", "mediaType", "encoding", "schema", "format"})
MAX_NAMES = 100
LINK_FIELDS = frozenset({"href", "rel", "type", "hreflang", "title"})


class RequestedOutput(StrictModel):
    """How an output is to be sent."""

    transmission_mode: Literal["value"] = Field("value", alias="transmissionMode", description="Always by value.")
    format: dict[str, JsonValue] = Field(default_factory=dict, description="Not used: an output is JSON.")


class ExecuteRequest(StrictModel):
    """A process to execute."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"inputs": {"n": 3}, "response": "document"}]},
    )
    inputs: dict[str, JsonValue] = Field(
        default_factory=dict, description="By name; a value, {`value`: …} or {`href`: …}."
    )
    outputs: dict[Literal["result"], RequestedOutput] = Field(
        default_factory=dict, description="There is one, `result`, whether it is named or not."
    )
    response: ResponseForm = Field("raw", description="The form of the results.")

    @field_validator("outputs", mode="before")
    @classmethod
    def _refuse_many(cls, given: object) -> object:
        found = [given, *given.values()] if isinstance(given, dict) else []
        if any(isinstance(each, dict) and len(each) > MAX_NAMES for each in found):  # before each of them is checked
            raise PydanticCustomError("too_many", "There is one output, result, with two fields")
        return given


def read_inputs(given: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters of a job: values without what qualifies them, and the addresses of links."""
    return {
        name: [_read_input(one) for one in value] if isinstance(value, list) else _read_input(value)
        for name, value in given.items()
    }


def _read_input(value: Json) -> Json:
    if isinstance(value, dict):
        if "value" in value and value.keys() <= QUALIFIERS:
            return value["value"]
        if "href" in value and value.keys() <= LINK_FIELDS:
            return value["href"]
    return value
