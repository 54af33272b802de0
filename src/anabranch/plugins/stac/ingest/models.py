"""The parameters and results of the handlers of stac_ingest."""

from typing import Literal

from pydantic import Field, field_validator

from anabranch.canonical import JsonObject
from anabranch.errors import InputError
from anabranch.plugins.stac.ingest.hrefs import is_web_url
from anabranch.plugins.stac.names import check_collection_id
from anabranch.redaction import hide_secrets
from anabranch.storage.ndjson import Output
from anabranch.strict_model import StrictModel

__all__ = ["Ingested", "LoadParams", "Output", "Part", "Read", "ReadParams", "ValidateParams", "Validated", "WorkFile"]

WorkFile = JsonObject  # as ctx.work.put returns it


class ReadParams(StrictModel):
    """A source, and the inputs that are checked before it is read."""

    source: str
    collection: str | None = None
    base_url: str | None = None

    @field_validator("collection")
    @classmethod
    def _check_collection(cls, value: str | None) -> str | None:
        try:
            return value if value is None else check_collection_id(value)
        except InputError as error:
            raise ValueError(f"{error.message}. {error.remedy}") from error

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, value: str | None) -> str | None:
        if value is not None and not is_web_url(value):
            what = f"{value[:200]!a} is not an absolute URL of http or https without credentials"
            raise ValueError(f"{hide_secrets(what)}. Give it like https://example.com/catalog/")
        return value


class Read(StrictModel):
    """The documents of a source in work files, and those that could not be read."""

    parts: list[WorkFile]
    read: int
    refused: WorkFile | None


class ValidateParams(ReadParams):
    """A part of a source, and how its items are treated."""

    part: WorkFile
    unknown_extensions: Literal["accept", "refuse"] = "accept"


class Part(StrictModel):
    """The checked documents of a part, in work files."""

    items: WorkFile
    collections: WorkFile | None
    refused: WorkFile | None
    unknown: dict[str, int]


class Validated(StrictModel):
    """A checked part."""

    part: Part


class LoadParams(StrictModel):
    """All checked parts, and the documents that could not be read."""

    collection: str | None = None
    parts: list[Part]
    read: int
    refused: WorkFile | None
    reason: str | None = Field(None, max_length=1000)
    dry_run: bool = False


class Ingested(StrictModel):
    """The result: read = collections + accepted + duplicates + refused.

    Items that are accepted are new or changed, or unchanged; in a dry run neither is known.
    """

    read: int
    collections: int
    accepted: int
    changed: int
    unchanged: int
    duplicates: int
    refused: int
    refusals: list[JsonObject]
    warnings: list[str]
    outputs: list[Output]
    report: str
