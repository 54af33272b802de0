"""What reviewers see of what a job would publish."""

from collections.abc import Mapping

from anabranch.contract.answer import Answer, JsonObject, JsonValue, answer

__all__ = ["Preview", "PreviewItem"]


@answer
class PreviewItem(Answer):
    """An item as it would be published."""

    item: JsonObject
    """In the form of STAC; its assets lead to the outputs of the job."""
    links: Mapping[str, str]
    """To a thumbnail, and to the tiles of a raster (tilejson, picture) or the features and vector tiles of a layer."""


@answer
class Preview(Answer):
    """What a job that waits for a review would publish."""

    job_id: str
    release_id: str | None
    collection: str
    items: tuple[PreviewItem, ...]
    """At most 100 of them; empty where the job keeps them in files of its own."""
    total: int
    warnings: tuple[JsonValue, ...]
    report: JsonValue
    """The report of the job, as JSON; null where there is none, or it is larger than a megabyte."""
    links: Mapping[str, str]
