"""Work orders of partners, in our shape."""

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from anabranch.canonical import Json
from anabranch.strict_model import StrictModel

__all__ = ["MAX_BATCH", "MAX_REFERENCES", "DataType", "Line", "PlatformOrder"]

MAX_BATCH = 100
MAX_REFERENCES = 20
MAX_TAGS = 50
DataType = Literal["raster", "vector"]
Line = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class PlatformOrder(StrictModel):
    """What a partner wants to have published, and under which of their references."""

    platform: Annotated[str, Field(max_length=40, description="The id of the platform.")]
    refs: dict[Line, Line | StrictInt] = Field(max_length=MAX_REFERENCES, description="The platform's own identifiers.")
    source: Annotated[str, Field(min_length=1, max_length=2000, description="The address of the file.")]
    data_type: DataType | None = Field(None, description="Without it, it follows from the file's extension.")
    options: dict[str, Json] = Field(default_factory=dict, description="Other inputs of the workflow.")
    title: Line | None = None
    description: Annotated[str, Field(max_length=4000)] | None = None
    tags: list[Line] = Field(default_factory=list, max_length=MAX_TAGS)
    overwrite: bool = Field(False, description="Replace what was submitted and is not approved.")
    reprocess: bool = Field(False, description="Make the next revision, while the approved one goes on being served.")
    approval: bool | None = Field(None, description="Ask for an approval even if the platform does not.")
    clearance: Literal["uncleared", "internal", "public"] = Field("uncleared", description="Who may read it.")
