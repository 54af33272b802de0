"""Path parameters of routes."""

from typing import Annotated
from uuid import UUID

from fastapi import Path
from starlette.convertors import IntegerConvertor, register_url_convertor

from anabranch.access import PLATFORM_PATTERN
from anabranch.engine.model import LimitKind
from anabranch.workflows.values import ID_PATTERN

__all__ = [
    "CollectionId",
    "DeliveryId",
    "EndpointId",
    "ErrorCode",
    "ItemId",
    "JobId",
    "KeyId",
    "Kind",
    "LimitedName",
    "NodeName",
    "PlatformId",
    "ScheduleName",
    "Session",
    "WorkflowId",
]


class NumberConvertor(IntegerConvertor):
    """A number that a database can hold: Python reads no text of thousands of digits."""

    regex = "[0-9]{1,19}"


register_url_convertor("number", NumberConvertor())

JobId = Annotated[str, Path(description="The id of a job, or a unique prefix of it.")]
NodeName = Annotated[str, Path(description="The name of a node of the job.")]
WorkflowId = Annotated[str, Path(description="The id of a workflow.")]
LimitedName = Annotated[
    str,
    Path(
        min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$", description="The name of what is limited or paused."
    ),
]
Kind = Annotated[LimitKind, Path(description="What is limited.")]
Session = Annotated[
    int, Path(ge=1, lt=2**63, description="The number of a worker's session, as listed by `/api/workers`.")
]
KeyId = Annotated[str, Path(description="The id of a key, which is not secret: the part after `anb_`.")]
CollectionId = Annotated[str, Path(max_length=63, pattern=r"^[^\x00-\x1f]+$", description="The id of a collection.")]
ItemId = Annotated[str, Path(max_length=128, pattern=r"^[^\x00-\x1f]+$", description="The id of an item.")]
EndpointId = Annotated[UUID, Path(description="The id of an endpoint.")]
DeliveryId = Annotated[int, Path(ge=1, lt=2**63, description="The id of a delivery.")]
ScheduleName = Annotated[str, Path(pattern=ID_PATTERN, description="The name of a schedule.")]
PlatformId = Annotated[str, Path(pattern=f"^{PLATFORM_PATTERN.pattern}$", description="The id of a platform.")]
ErrorCode = Annotated[str, Path(description="A code, as in a problem's `code`.")]
