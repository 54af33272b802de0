"""Work orders of partners, in our shape."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, GetCoreSchemaHandler, StrictBool, StrictInt, model_validator

from anabranch.canonical import Json, JsonObject
from anabranch.errors import InputError
from anabranch.platform.notifications.fields import Retries, Secret, Timeout, Url
from anabranch.platform.notifications.webhooks import DEFAULT_TIMEOUT_SECONDS, MAX_RETRIES
from anabranch.strict_model import StrictModel

__all__ = ["MAX_BATCH", "MAX_REFERENCES", "DataType", "InvalidOrder", "Line", "PlatformOrder", "Reference"]

MAX_BATCH = 100
MAX_REFERENCES = 20
MAX_TAGS = 50
DataType = Literal["raster", "vector"]
Line = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _OneMistake:
    """Makes one mistake of the one that pydantic has for each branch of a union, at a place of its own."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:  # pydantic's
        return {
            **handler(source),
            "custom_error_type": "reference",
            "custom_error_message": "Input should be a text of 1 to 200 characters, without control characters, "
            "or a whole number",
        }


Reference = Annotated[Line | StrictInt, _OneMistake()]


class PlatformOrder(StrictModel):
    """What a partner wants to have published, and under which of their references."""

    platform: Annotated[str, Field(max_length=40, description="The id of the platform.")]
    refs: dict[Line, Reference] = Field(max_length=MAX_REFERENCES, description="The platform's own identifiers.")
    source: Annotated[str, Field(min_length=1, max_length=2000, description="The address of the file.")]
    data_type: DataType | None = Field(None, description="Without it, it follows from the file's extension.")
    options: dict[str, Json] = Field(default_factory=dict, description="Other inputs of the workflow.")
    title: Line | None = None
    description: Annotated[str, Field(max_length=4000)] | None = None
    tags: list[Line] = Field(default_factory=list, max_length=MAX_TAGS)
    overwrite: StrictBool = Field(False, description="Replace what was submitted and is not approved.")
    reprocess: StrictBool = Field(
        False, description="Make the next revision, while the approved one goes on being served."
    )
    approval: StrictBool | None = Field(None, description="Ask for an approval even if the platform does not.")
    clearance: Literal["uncleared", "internal", "public"] | None = Field(
        None, description="Who may read it: without it, a new release is `uncleared`, and others stay as they are."
    )
    callback_url: Url | None = Field(None, description="Who is called when something happens to the release.")
    callback_secret: Secret | None = Field(
        None, description="What signs the messages. Without one, the answer contains one, the same for the same URL."
    )
    callback_timeout_seconds: Timeout = DEFAULT_TIMEOUT_SECONDS
    callback_retries: Retries = MAX_RETRIES

    @model_validator(mode="after")
    def _check_callback(self) -> Self:
        given = [name for name in sorted(self.model_fields_set) if name.startswith("callback_")]
        if given and not self.callback_url and any(getattr(self, name) is not None for name in given):
            raise ValueError(f"{', '.join(given)} needs callback_url")
        return self

    @property
    def identity(self) -> JsonObject:
        """All that it says, for a hash: with the secret itself, which JSON would hide."""
        secret = self.callback_secret.get_secret_value() if self.callback_secret else None
        return {**self.model_dump(mode="json"), "callback_secret": secret}

    @property
    def body(self) -> JsonObject:
        """The order as it is stored: a callback is stored as one (S5)."""
        kept = {name for name in type(self).model_fields if not name.startswith("callback_")}
        return self.model_dump(mode="json", exclude_none=True, include=kept)


class InvalidOrder(InputError):
    """An order with several mistakes, each with its own code."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__("request.invalid", "; ".join(error.message for error in errors))
        self.errors: tuple[InputError, ...] = tuple(
            one for error in errors for one in (error.errors if isinstance(error, InvalidOrder) else (error,))
        )
