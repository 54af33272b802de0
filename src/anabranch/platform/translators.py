"""Turns a partner's own shape into ours: the anti-corruption layer. A plugin brings one by an entry point."""

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from anabranch.canonical import Json
from anabranch.engine.entry_points import load_entry_points
from anabranch.errors import NotFound
from anabranch.platform.orders import DataType, Reference
from anabranch.strict_model import StrictModel

__all__ = ["TRANSLATOR_GROUP", "Translator", "find_translator", "translate_arcgis", "translate_ddh"]

TRANSLATOR_GROUP = "anabranch.translators"  # a function from a partner's body to the body of an order
Translator = Callable[[Mapping[str, Json]], Mapping[str, Json]]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
WEBHOOK = {"webhook_url", "webhook_secret", "webhook_retry_count", "webhook_timeout_seconds"}


class BlobRequest(StrictModel):
    """What partners of the seeds send: a file in a container, with options of their own."""

    container_name: Text = "bronze"
    file_name: Text
    data_type: DataType | None = None
    title: str | None = None
    description: str | None = None
    tags: list[str] = Field(default_factory=list)
    processing_options: dict[str, Json] = Field(default_factory=dict)
    overwrite: StrictBool = False
    callback_url: str | None = None
    callback_secret: str | None = None
    webhook_url: Json = None
    webhook_secret: Json = None
    webhook_retry_count: Json = None
    webhook_timeout_seconds: Json = None

    def order(self, platform: str, refs: Mapping[str, Json]) -> Mapping[str, Json]:
        """The body of the order."""
        said = self.model_dump(include={"data_type", "title", "description", "tags", "overwrite"})
        said |= self.model_dump(include={"callback_url", "callback_secret"}, exclude_none=True)
        webhook = self.model_dump(include=WEBHOOK, exclude_none=True)
        source = f"{self.container_name}://{self.file_name.lstrip('/')}"
        given = {name: value for name, value in refs.items() if value is not None}
        options = {**self.processing_options, **webhook}  # where the `webhook_*` of jobs are looked for
        return {**said, "platform": platform, "refs": given, "source": source, "options": options}


class DdhRequest(BlobRequest):
    """A request of the data hub."""

    dataset_id: Reference
    resource_id: Reference
    version_id: Reference | None = None


class ArcgisRequest(BlobRequest):
    """A request of ArcGIS."""

    item_id: Text
    layer_index: StrictInt = Field(ge=0)


def translate_ddh(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """The order of a request of the data hub."""
    asked = DdhRequest.model_validate(body)
    return asked.order("ddh", asked.model_dump(include={"dataset_id", "resource_id", "version_id"}))


def translate_arcgis(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """The order of a request of ArcGIS."""
    asked = ArcgisRequest.model_validate(body)
    return asked.order("arcgis", asked.model_dump(include={"item_id", "layer_index"}))


def find_translator(platform: str) -> Translator:
    """The translator that is registered for a platform."""
    found = dict(load_entry_points(TRANSLATOR_GROUP)).get(platform)
    if not callable(found):
        raise NotFound(
            "platform.translator",
            f"platform {platform} has no shape of its own",
            remedy="Send the order to /api/platform/submit.",
        )
    return found
