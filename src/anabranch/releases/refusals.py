"""The errors of the verdicts that refuse an order, a decision, or the deletion of an asset."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from anabranch.adapters.postgres.store.platforms import ReleaseRow
from anabranch.engine.ports import KeyTaken
from anabranch.errors import AnabranchError, Conflict, Denied, NotFound
from anabranch.releases.preparation import Prepared

__all__ = ["ASSET_REFUSALS", "DECISION_REFUSALS", "REFUSALS", "describe_approval", "refuse_unresolved"]

REFUSALS: Mapping[str, Callable[[Prepared], AnabranchError]] = {
    "taken": lambda _: KeyTaken(),
    "changed": lambda one: Conflict(
        "platform.changed", f"platform {one.platform.id} was changed while the order was accepted"
    ),
    "deleted": lambda one: Conflict("asset.deleted", f"asset {one.identity.asset_id} was deleted"),
    "different": lambda one: Conflict(
        "release.exists",
        f"release {one.identity.release_id} was submitted before with another source or other options",
        remedy="" if one.platform.version_ref else "Set `overwrite`, or `reprocess` if it is approved.",
    ),
    "approved": lambda one: Conflict("release.approved", f"release {one.identity.release_id} is approved"),
    "processing": lambda one: Conflict("release.processing", f"release {one.identity.release_id} is being processed"),
    "owner": lambda one: NotFound(
        "catalog.no_collection",
        f"there is no collection {one.parameters['collection']} that platform {one.platform.id} may publish to",
    ),
    "clearance": lambda one: Conflict(
        "release.clearance", f"release {one.identity.release_id} is readable by fewer people than the order says"
    ),
    "full": lambda one: Conflict(
        "platform.full",
        f"platform {one.platform.id} has as many unresolved releases as it may have: {one.platform.max_unresolved}",
    ),
}
DECISION_REFUSALS: Mapping[str, Callable[[ReleaseRow, int | None], AnabranchError]] = {
    "own": lambda one, _: Denied(
        "release.own",
        f"{one['submitted_by']} submitted release {one['release_id']}, and another person must approve it",
    ),
    "not_completed": lambda one, _: _not_completed(one),
    "decided": lambda one, _: Conflict(
        "release.decided", f"release {one['release_id']} can't be decided again: {describe_approval(one)}"
    ),
    "moved": lambda one, revision: Conflict(
        "release.moved", f"release {one['release_id']} has revision {one['revision']} by now, not {revision}"
    ),
    "deleted": lambda one, _: Conflict(
        "asset.deleted", f"asset {one['asset_id']} of release {one['release_id']} was deleted"
    ),
}
ASSET_REFUSALS: Mapping[str, Callable[[str], AnabranchError]] = {
    "missing": lambda asset: NotFound("asset.not_found", f"there is no asset {asset!r}"),
    "shown": lambda asset: Conflict("asset.shown", f"a release of asset {asset} is published"),
}


def refuse_unresolved(row: ReleaseRow) -> Conflict:
    """The refusal of what a release stands against, until it is processed and decided."""
    name, path = row["release_id"], f"/api/platform/releases/{row['release_id']}"
    if row["processing_status"] == "completed":
        state = "waits for its review"
        remedy = f"Decide it: `anabranch approvals approve {name}` or `reject`, over HTTP `POST {path}/approve`."
    else:
        state = "is being processed"
        remedy = f"Wait until it is processed and decided: `anabranch releases show {name}`, over HTTP `GET "
        remedy += f"/api/platform/status/{name}`."
    return Conflict("release.unresolved", f"release {name} of asset {row['asset_id']} {state}", remedy=remedy)


def describe_approval(row: ReleaseRow) -> str:
    """What became of the approval of a release, as a clause: how, by whom and when it was decided."""
    status = row["approval_status"]
    if status == "pending_review":
        return "it waits for a review" if row["processing_status"] == "completed" else "it is not processed"
    when = f"on {datetime.fromisoformat(row['decided_at']).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"its review expired {when}" if status == "expired" else f"it was {status} by {row['decided_by']} {when}"


def _not_completed(row: ReleaseRow) -> Conflict:
    name = f"release {row['release_id']}"
    if row["processing_status"] != "failed":
        return Conflict("release.not_completed", f"{name} is not processed: job {str(row['job_id'])[:12]} goes on")
    remedy = (
        f"See why with `anabranch releases show`; `anabranch releases resubmit {row['release_id']}` submits it again."
    )
    return Conflict("release.not_completed", f"the processing of {name} failed", remedy=remedy)
