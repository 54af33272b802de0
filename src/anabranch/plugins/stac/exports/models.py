"""The parameters and the result of an export of collections."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from anabranch.canonical import JsonObject
from anabranch.plugins.stac.names import require_collection_id, require_item_id
from anabranch.public_url import read_public_url
from anabranch.storage.ndjson import Output
from anabranch.strict_model import StrictModel

__all__ = ["ExportParams", "Exported"]

MAX_COLLECTIONS = 1_000


class ExportParams(StrictModel):
    """The collections to export, the id of the catalog, and the URL that its links to files begin with."""

    collections: tuple[str, ...] = Field(min_length=1, max_length=MAX_COLLECTIONS)
    name: str | None = None
    title: str | None = Field(None, max_length=200)
    description: str | None = Field(None, min_length=1, max_length=5000)
    base_url: str | None = None

    _check_name = field_validator("name")(require_item_id)

    @field_validator("collections")
    @classmethod
    def _check_collections(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(require_collection_id, ids)))

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, url: str | None) -> str | None:
        return None if url is None else read_public_url(url)

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if self.name is None and len(self.collections) > 1:
            raise ValueError("give `name`, the id of the catalog of several collections")
        return self

    @property
    def id(self) -> str:
        """The id of the catalog: the given one, or that of its only collection."""
        return self.name or self.collections[0]


class Exported(StrictModel):
    """The written catalog: `facts` are work files, with the facts of its item."""

    facts: tuple[JsonObject, ...]
    outputs: tuple[Output, ...]
    exported: int
    warnings: tuple[str, ...]
