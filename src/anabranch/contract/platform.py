"""What partners see of their platform."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from anabranch.contract.answer import Answer, JsonObject, JsonValue, answer

__all__ = ["Accepted", "AuditEntry", "Decision", "Platform", "Release", "ReleaseItem", "WorkOrder"]


@answer
class Platform(Answer):
    """A partner system."""

    id: str
    title: str
    required_refs: tuple[str, ...]
    optional_refs: tuple[str, ...]
    version_ref: str | None
    """The reference that is the version; null: the platform has no versions."""
    workflows: Mapping[str, str]
    """The workflow for each type of data."""
    approval: str
    """none, one_approver, or other_approver: another than the submitter, by the names of their keys."""
    callback_hosts: tuple[str, ...]
    max_unresolved: int | None
    retired: bool
    changed_at: datetime
    sources: tuple[str, ...] = ()
    """The folders of tiers that its jobs may read, besides its uploads and what is published for it."""

    @property
    def references(self) -> tuple[str, ...]:
        """The names of all references, that of the version among them."""
        return (*self.required_refs, *self.optional_refs, *((self.version_ref,) if self.version_ref else ()))


@answer
class Accepted(Answer):
    """A work order that was accepted, or would be: `verdict` is create, next or same."""

    verdict: str
    request_id: str | None
    asset_id: str
    release_id: str
    revision: int
    job_id: str | None
    status: str | None
    workflow: str
    parameters: JsonObject
    links: Mapping[str, str]
    callback_secret: str | None = field(default=None, repr=False)
    """What signs the messages to the order's callback_url, where the order gave no secret."""


@answer
class ReleaseItem(Answer):
    """An item of a release that readers see."""

    collection: str
    id: str
    number: int
    """The number of its publication."""
    revision: int
    """The revision of the release that it shows."""
    links: Mapping[str, str]
    """To the item, its history, and its tiles or features."""


@answer
class Release(Answer):
    """A release with its newest revision, and the one that is published."""

    release_id: str
    asset_id: str
    platform: str
    refs: Mapping[str, str]
    version: str | None
    ordinal: int
    data_type: str
    title: str | None
    description: str | None
    tags: tuple[str, ...]
    clearance: str
    revision: int
    processing_status: str
    """queued, processing, completed or failed."""
    approval_status: str
    """pending_review, approved, rejected, revoked or expired; one that failed stays pending_review."""
    approval_required: bool
    submitted_by: str
    decided_by: str | None
    decided_at: datetime | None
    reason: str | None
    job_id: str | None
    content_hash: str | None
    artifacts: tuple[JsonValue, ...]
    """The files and tables of the revision, each with its `item`; a file that is published has a `url`."""
    error: JsonValue
    made_at: datetime
    revised_at: datetime
    finished_at: datetime | None
    collection: str
    item_id: str
    number: int | None
    """The number of the publication that readers see, of the first item; null while there is none."""
    shown_revision: int | None
    latest: bool
    deleted: bool
    progress: float | None
    """How much of its job is done, from 0 to 1; only in the status of a release that is queued or processed."""
    links: Mapping[str, str]
    """To its status and job; while it is published, to the latest release, too; with one item, also what that links."""
    items: tuple[ReleaseItem, ...] = ()
    """All that readers see: one, or several of a file with several layers."""


@answer
class WorkOrder(Answer):
    """A request as it was accepted."""

    request_id: str
    platform: str
    asset_id: str
    release_id: str
    revision: int
    job_id: str | None
    body: JsonObject
    made_by: str
    made_at: datetime


@answer
class Decision(Answer):
    """What an action on one release of a batch came to."""

    release_id: str
    release: Release | None
    code: str | None
    message: str | None
    remedy: str | None


@answer
class AuditEntry(Answer):
    """A line of the audit."""

    number: int
    at: datetime
    platform: str
    actor: str
    action: str
    asset_id: str | None
    release_id: str | None
    revision: int | None
    reason: str | None
    data: JsonObject
    correlation_id: str | None
