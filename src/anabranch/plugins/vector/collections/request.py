"""A caller's request for a set of vector files: what is wrong in it is known before the job exists."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from anabranch.plugins.vector.reading.formats import SUFFIXES
from anabranch.plugins.vector.request import PublishOptions
from anabranch.storage.addresses import require_address, require_folder
from anabranch.storage.filenames import require_extensions

__all__ = ["CollectionRequest"]

MAX_SOURCES = 10_000


class CollectionRequest(PublishOptions):
    """The inputs of the workflow that say which files, and how they are to be read."""

    sources: tuple[str, ...] = Field((), max_length=MAX_SOURCES)
    folder: str | None = None
    extensions: tuple[str, ...] = ()

    @field_validator("sources")
    @classmethod
    def _check_addresses(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        for source in sources:
            require_address(source)
        if len(set(sources)) < len(sources):
            raise ValueError("a file is listed twice: list each once")
        return sources

    _check_folder = field_validator("folder")(require_folder)

    @field_validator("extensions")
    @classmethod
    def _check_extensions(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        return require_extensions(given, SUFFIXES, "vector")

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if bool(self.sources) == bool(self.folder):
            raise ValueError("give the files as one of sources and folder")
        return self
