"""A caller's request for a set of rasters: what is wrong in it is known before the job exists."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from anabranch.plugins.raster.files.magic_bytes import SUFFIXES
from anabranch.plugins.raster.request import NamedSource, PublishOptions
from anabranch.storage.addresses import require_address, require_folder
from anabranch.storage.filenames import require_extensions

__all__ = ["CollectionRequest"]


class CollectionRequest(PublishOptions):
    """The inputs of the workflow that say which files, and how they are to be published."""

    sources: tuple[NamedSource, ...] = ()
    source_list: str | None = Field(None, description="The address of a file with a line of JSON for each source.")
    folder: str | None = None
    extensions: tuple[str, ...] = ()

    @field_validator("sources", mode="before")
    @classmethod
    def _read_addresses(cls, given: object) -> object:
        if not isinstance(given, list | tuple):
            return given
        return [{"source": one} if isinstance(one, str) else one for one in given]

    @field_validator("sources")
    @classmethod
    def _check_addresses(cls, sources: tuple[NamedSource, ...]) -> tuple[NamedSource, ...]:
        for one in sources:
            require_address(one.source)
        return sources

    @field_validator("extensions")
    @classmethod
    def _check_extensions(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        return require_extensions(given, SUFFIXES, "raster")

    _check_folder = field_validator("folder")(require_folder)

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if sum(map(bool, (self.sources, self.source_list, self.folder))) != 1:
            raise ValueError("give the files as one of sources, source_list and folder")
        return self
