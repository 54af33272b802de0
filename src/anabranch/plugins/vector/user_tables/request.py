"""What a handler asks `ctx.geo` for."""

import re
from typing import Self

from pydantic import AwareDatetime, Field, ValidationError, field_validator, model_validator

from anabranch.errors import Permanent
from anabranch.plugins.stac.names import require_collection_id
from anabranch.strict_model import StrictModel
from anabranch.workflows.mistakes import reword

__all__ = ["PublishRequest", "check_name", "check_request"]

# It is the id of the item, too; there is room for what the names of tables add to it.
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
RULE = "use 1 to 40 small letters a to z, digits and underscores, beginning with a letter"


class PublishRequest(StrictModel):
    """A table to publish, and what is said of the layer."""

    table: str
    name: str
    collection: str = "process_vector"
    title: str | None = Field(None, max_length=200)
    description: str | None = Field(None, min_length=1)
    datetime: AwareDatetime | None = None
    reason: str | None = Field(None, max_length=1000)
    expected: int | None = Field(None, ge=0)

    _check_collection = field_validator("collection")(require_collection_id)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} can't be the name of a layer: {RULE}")
        return name

    @model_validator(mode="after")
    def _has_a_name_of_its_own(self) -> Self:
        if self.table == self.name:
            raise ValueError(
                f"geo.{self.name} becomes the layer, so that no handler could create a table of this name again: name"
                f" the table otherwise, as ctx.geo.scratch_table({self.name!r}) does"
            )
        return self


def check_request(**given: object) -> PublishRequest:
    """The request, if it can be done."""
    try:
        return PublishRequest.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "table"
        raise _refuse(f"publish_table: {where}: {reword(first['msg'])}") from None


def check_name(name: str) -> str:
    """The name, if a layer can have it."""
    if not NAME.fullmatch(name):
        raise _refuse(f"scratch_table: {name[:80]!r} can't be the name of a layer: {RULE}")
    return name


def _refuse(what: str) -> Permanent:
    return Permanent(what, code="geo.arguments", remedy="Correct the argument in the handler's call of `ctx.geo`.")
