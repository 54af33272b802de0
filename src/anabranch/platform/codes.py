"""The error codes of platforms."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("asset.deleted", Kind.CONFLICT, "The asset was deleted.", "Restore it first: `anabranch assets restore`."),
    Code("asset.not_found", Kind.NOT_FOUND, "There is no such asset.", "List releases with `anabranch releases list`."),
    Code("asset.shown", Kind.CONFLICT, "A release of the asset is published.", "Unpublish it first."),
    Code("platform.data_type", Kind.INVALID, "The type of the data is not known.", "Set `data_type`, and a workflow for it on the platform."),
    Code("platform.exists", Kind.CONFLICT, "The references of a platform with assets can't change, because their ids depend on them.", "Make another platform."),
    Code("platform.full", Kind.CONFLICT, "The platform has as many unresolved releases as it may have.", "Approve or reject some, or raise its `max_unresolved`."),
    Code("platform.no_gate", Kind.INVALID, "The platform asks for approval, and the workflow has no input `approval`.", "Use a workflow that waits for an approval."),
    Code("platform.not_found", Kind.NOT_FOUND, "There is no such platform.", "List them with `anabranch platforms list`."),
    Code("platform.references", Kind.INVALID, "References of the platform are missing or unknown.", "Send the references that the platform declares."),
    Code("platform.retired", Kind.CONFLICT, "The platform takes no more orders.", "Ask the operator."),
    Code("platform.translator", Kind.NOT_FOUND, "The platform has no request shape of its own.", "Send the order to /api/platform/submit."),
    Code("preview.item", Kind.NOT_FOUND, "The job would publish no such item, or it has no features.", "Its items are at `/api/jobs/{job_id}/preview`."),
    Code("preview.not_found", Kind.NOT_FOUND, "The job or release does not wait for a review: it is not processed yet, or it was decided.", "List what waits with `anabranch approvals list`; what is published is at /stac."),
    Code("release.approved", Kind.CONFLICT, "The release is approved and being served.", "Revoke it first, or set `reprocess`: the next revision is reviewed while this one goes on being served."),
    Code("release.decided", Kind.CONFLICT, "The release was decided otherwise before.", "Look at it with `anabranch releases show`."),
    Code("release.exists", Kind.CONFLICT, "The release was submitted before with other content or options.", "Set `overwrite`, or `reprocess` if it is approved, or send another version."),
    Code("release.not_approved", Kind.CONFLICT, "The release is not approved.", "Look at it with `anabranch releases show`."),
    Code("release.not_completed", Kind.CONFLICT, "The processing of the release is not completed.", "Wait for it: `anabranch releases show`."),
    Code("release.not_found", Kind.NOT_FOUND, "There is no such release, asset, request or job.", "List them with `anabranch releases list`."),
    Code("release.own", Kind.NOT_ALLOWED, "The platform asks for another approver than the submitter.", "Ask somebody else to approve it."),
    Code("release.processing", Kind.CONFLICT, "The release is being processed.", "Wait for it, or set `overwrite` to begin again."),
    Code("release.reason", Kind.INVALID, "A reason is needed.", "Send `reason`."),
    Code("release.unresolved", Kind.CONFLICT, "Another release of the asset is being processed or reviewed.", "Approve or reject it first."),
)
