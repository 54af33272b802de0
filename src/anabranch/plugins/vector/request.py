"""A caller's request for a vector file: what is wrong in it is known before the job exists."""

import re
from typing import Literal

from pydantic import AwareDatetime, Field, ValidationInfo, field_validator

from anabranch.geo.crs_codes import check_crs
from anabranch.plugins.stac.names import require_collection_id, require_item_id
from anabranch.plugins.vector.exports.models import ExportFormat
from anabranch.plugins.vector.models import ReadOptions

__all__ = ["Mode", "PublishOptions", "VectorRequest", "check_table"]

Mode = Literal["replace", "append"]
# It is the id of the item, too. Room for what is added: the name of a layer is the caller's, that of a table ours.
TABLE = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)


def check_table(name: str | None) -> str | None:
    """The name of a table, for validators of requests; ValueError says what is wrong with it."""
    if name is not None and not TABLE.fullmatch(name):
        raise ValueError(
            f"{name[:80]!r} can't be the name of a table. Use 1 to 40 small letters a to z, digits and underscores;"
            " begin with a letter"
        )
    return name


class PublishOptions(ReadOptions):
    """How files are read, the time of their data, and the collection that their items join."""

    collection: str
    datetime: AwareDatetime | None = None

    _check_crs = field_validator("crs")(check_crs)
    _check_collection = field_validator("collection")(require_collection_id)

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, text: str | None) -> str | None:
        if text is not None and text not in (",", ";", "\t", "|", "tab"):
            raise ValueError(f"{text[:20]!r} is no delimiter of columns. Use , ; | or tab")
        return "\t" if text == "tab" else text


class VectorRequest(PublishOptions):
    """A caller's request for a vector file: the inputs of its workflow."""

    source: str
    item_id: str | None = None
    table: str | None = None
    mode: Mode = "replace"
    title: str | None = Field(None, max_length=200)
    exports: tuple[ExportFormat, ...] = ()
    expected: int | None = Field(None, ge=0)

    _check_item = field_validator("item_id")(require_item_id)
    _check_table = field_validator("table")(check_table)

    @field_validator("mode")
    @classmethod
    def _check_mode(cls, mode: Mode, info: ValidationInfo) -> Mode:
        if mode == "append" and not info.data.get("table"):
            raise ValueError("append needs `table`, the name of the layer that the rows are added to")
        return mode
