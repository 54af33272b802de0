"""A caller's request for a folder: what is wrong in it is known before the job exists."""

from pydantic import Field, field_validator

from anabranch.errors import InputError
from anabranch.plugins.stac.names import is_collection_id
from anabranch.plugins.storage.handlers import MAX_FILES
from anabranch.storage.addresses import parse_folder
from anabranch.strict_model import StrictModel

__all__ = ["CompareParams"]


class CompareParams(StrictModel):
    """A folder, the collection that its files are published to, and which of them."""

    folder: str
    collection: str
    extensions: tuple[str, ...] = ()
    limit: int = Field(10_000, ge=1, le=MAX_FILES)
    dry_run: bool = False

    @field_validator("folder")
    @classmethod
    def _check_folder(cls, folder: str) -> str:
        try:
            at = parse_folder(folder)
        except InputError as error:
            raise ValueError(error.message) from error
        return f"{at}/" if at.path else str(at)

    @field_validator("collection")
    @classmethod
    def _check_collection(cls, collection: str) -> str:
        if not is_collection_id(collection):
            raise ValueError(f"{collection[:80]!r} can't be the id of a collection")
        return collection
