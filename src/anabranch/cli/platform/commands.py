"""`platforms`, `requests`, `assets`, `releases` and `approvals`."""

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.jobs.parameters import read_parameters
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import ago, escape, format_time, print_json, print_line, print_list, print_result
from anabranch.contract.platform import AuditEntry, Platform, Release, WorkOrder

__all__ = [
    "approve", "clear", "delete_asset", "list_approvals", "list_audit", "list_platforms", "list_releases",
    "list_requests", "preview", "reject", "restore_asset", "resubmit", "retire_platform", "revoke", "rollback",
    "save_platform", "show", "submit",
]  # fmt: skip

ReleaseName = Annotated[str, typer.Argument(metavar="RELEASE", help="The id of a release.")]
AssetName = Annotated[str, typer.Argument(metavar="ASSET", help="The id of an asset.")]
AnyName = Annotated[
    str, typer.Argument(metavar="ID", help="The id of a request, an asset, a release or a job (or its prefix).")
]
Reason = Annotated[str, typer.Option(help="Why; recorded in the audit.")]
OptionalReason = Annotated[str | None, typer.Option(help="Why; recorded in the audit.")]
Revision = Annotated[int | None, typer.Option(min=1, help="The one that was reviewed; without it, the newest.")]
Body = Annotated[Path, typer.Argument(metavar="FILE", help="A file in JSON or YAML.")]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of rows.")]


def submit(
    order: Body,
    shape: Annotated[
        str | None, typer.Option(metavar="PLATFORM", help="The order has this platform's own shape.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the order, and show the plan; its source is not read.")
    ] = False,
    json: Json = False,
) -> None:
    """Submit a work order; the same order is the same release and job."""
    with connect() as client:
        accepted = client.platform.submit(read_parameters([], order).values, shape=shape, dry_run=dry_run)
    said = f"{accepted.verdict}: release {accepted.release_id}, revision {accepted.revision}"
    print_result(accepted, said + (f", job {accepted.job_id[:12]}" if accepted.job_id else ""), json=json)
    if not json and accepted.callback_secret:
        print_line(f"callback secret {accepted.callback_secret}")


def show(name: AnyName, json: Json = False) -> None:
    """Show a release: its revision, its statuses, and what is published of it."""
    with connect() as client:
        _print(client.platform.status(name), json=json)


def list_releases(
    asset: Annotated[str | None, typer.Option(metavar="ASSET", help="Only of this asset.")] = None,
    approval: Annotated[str | None, typer.Option(metavar="STATUS", help="Only with this approval status.")] = None,
    processing: Annotated[str | None, typer.Option(metavar="STATUS", help="Only with this processing status.")] = None,
    ref: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only with this reference.")] = None,
    latest: Annotated[bool, typer.Option("--latest", help="Only the newest published release of each asset.")] = False,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List releases, the newest first."""
    refs = dict(map(_pair, ref or ()))
    if len(refs) < len(ref or ()):
        raise UsageError("usage", "duplicate reference", remedy="Give each `--ref` another name.")
    with connect() as client:
        found = client.platform.releases(
            asset_id=asset, approval_status=approval, processing_status=processing, refs=refs, latest=latest
        )
        _print_releases(list(islice(found, limit)), json=json)


def preview(release: ReleaseName, json: Json = False) -> None:
    """Show what a release that waits for its review would publish: items, report, warnings and links."""
    with connect() as client:
        found = client.platform.preview(release)
    ids = ", ".join(one.item["id"] for one in found.items) or "items that it keeps in files"
    print_result(found, f"job {found.job_id[:12]} would publish {ids} in {found.collection}", json=json)
    if json:
        return
    for one in found.items:
        print_json(one.item)
        for name, href in one.links.items():
            print_line(f"{name} {href}")
    for about, value in (("warnings", found.warnings), ("report", found.report)):
        if value:
            print_line(about)
            print_json(value)


def list_approvals(limit: Limit = 100, json: Json = False) -> None:
    """List releases that wait for an approval."""
    with connect() as client:
        _print_releases(list(islice(client.platform.approvals(), limit)), json=json)


def approve(release: ReleaseName, reason: OptionalReason = None, revision: Revision = None, json: Json = False) -> None:
    """Approve a release; its job goes on and publishes it."""
    with connect() as client:
        _print(client.platform.approve(release, reason, revision=revision), json=json)


def reject(release: ReleaseName, reason: Reason, revision: Revision = None, json: Json = False) -> None:
    """Reject a release; nothing of it is published."""
    with connect() as client:
        _print(client.platform.reject(release, reason, revision=revision), json=json)


def revoke(release: ReleaseName, reason: Reason, json: Json = False) -> None:
    """Take back the approval of a release: readers no longer see it."""
    with connect() as client:
        _print(client.platform.revoke(release, reason), json=json)


def rollback(
    release: ReleaseName,
    reason: Reason,
    number: Annotated[
        int | None,
        typer.Option(help="The number of a publication of its first item; without it, the newest revision below."),
    ] = None,
    revision: Annotated[int | None, typer.Option(help="The revision to show, in place of a number.")] = None,
    expected: Annotated[
        int | None, typer.Option(help="The number that it shows now; refused if it shows another by then.")
    ] = None,
    json: Json = False,
) -> None:
    """Show an earlier revision of a release."""
    with connect() as client:
        _print(
            client.platform.rollback(release, reason, number=number, revision=revision, expected=expected), json=json
        )


def clear(
    release: ReleaseName,
    clearance: Annotated[str, typer.Argument(metavar="CLEARANCE", help="uncleared, internal or public.")],
    reason: OptionalReason = None,
    json: Json = False,
) -> None:
    """Set who may read a release once it is published."""
    with connect() as client:
        _print(client.platform.clear(release, clearance, reason), json=json)


def resubmit(release: ReleaseName, json: Json = False) -> None:
    """Submit the last order of a release again."""
    with connect() as client:
        accepted = client.platform.resubmit(release)
    print_result(accepted, f"{accepted.verdict}: revision {accepted.revision} of {accepted.release_id}", json=json)


def list_requests(
    release: Annotated[str | None, typer.Option(metavar="RELEASE", help="Only of this release.")] = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List work orders as they were accepted, the newest first."""
    with connect() as client:
        found = islice(client.platform.requests(release_id=release), limit)
        print_list(found, ["request", "platform", "release", "revision", "job", "by", "when"], _order_row, json=json)


def delete_asset(asset: AssetName, reason: OptionalReason = None) -> None:
    """Mark an asset as deleted; nothing of it is removed."""
    with connect() as client:
        client.platform.delete_asset(asset, reason)


def restore_asset(asset: AssetName, reason: OptionalReason = None) -> None:
    """Restore an asset that was deleted."""
    with connect() as client:
        client.platform.restore_asset(asset, reason)


def list_audit(
    asset: Annotated[str | None, typer.Option(metavar="ASSET", help="Only of this asset.")] = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List who did what, the newest first."""
    with connect() as client:
        found = islice(client.platform.audit(asset_id=asset), limit)
        print_list(found, ["when", "platform", "by", "action", "release", "revision", "reason"], _audit_row, json=json)


def list_platforms(json: Json = False) -> None:
    """List partner systems."""
    with connect() as client:
        found = client.platform.platforms()
    print_list(
        found, ["platform", "title", "references", "version", "approval", "sources", "status"], _platform_row, json=json
    )


def save_platform(
    platform: Annotated[str, typer.Argument(metavar="PLATFORM", help="The id of the platform.")],
    given: Body,
    json: Json = False,
) -> None:
    """Make a platform, or change one, as a file says."""
    with connect() as client:
        saved = client.platform.save(platform, read_parameters([], given).values)
    print_result(saved, f"saved platform {saved.id}", json=json)


def retire_platform(
    platform: Annotated[str, typer.Argument(metavar="PLATFORM", help="The id of the platform.")], json: Json = False
) -> None:
    """Retire a platform: it takes no more orders, and keeps its assets."""
    with connect() as client:
        retired = client.platform.retire(platform)
    print_result(retired, f"retired platform {retired.id}", json=json)


def _print(release: Release, *, json: bool) -> None:
    shown = "nothing is published"
    if release.number is not None:
        of = "" if release.shown_revision == release.revision else f", which shows revision {release.shown_revision},"
        shown = f"publication {release.number}{of} is published"
    said = f"release {release.release_id} revision {release.revision}: processing {release.processing_status}, "
    print_result(release, f"{said}{release.approval_status}; {shown}", json=json)
    if json:
        return
    for item in release.items:
        print_line(f"item {item.links['item']}")
    if isinstance(error := release.error, dict):
        print_line(escape(f"error {error.get('code')}: {error.get('message')}"))
        if error.get("remedy"):
            print_line(escape(str(error["remedy"])))


def _print_releases(found: list[Release], *, json: bool) -> None:
    head = ["release", "platform", "references", "version", "revision", "processing", "approval", "published", "made"]
    print_list(found, head, _release_row, json=json)


def _release_row(one: Release) -> list[object]:
    refs = " ".join(f"{name}={value}" for name, value in one.refs.items())
    shown = "" if one.number is None else f"{one.number}{' latest' if one.latest else ''}"
    return [
        one.release_id, one.platform, refs, one.version or "", one.revision, one.processing_status,
        one.approval_status, shown, ago(one.made_at),
    ]  # fmt: skip


def _platform_row(one: Platform) -> list[object]:
    refs = " ".join([*one.required_refs, *(f"[{name}]" for name in one.optional_refs)])
    status = "retired" if one.retired else "active"
    return [one.id, one.title, refs, one.version_ref or "", one.approval, " ".join(one.sources), status]


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError("usage", f"{text!r} is not NAME=VALUE", remedy="Write `--ref dataset_id=38272`.")
    return name, value


def _order_row(one: WorkOrder) -> list[object]:
    job = (one.job_id or "")[:12]
    return [one.request_id, one.platform, one.release_id, one.revision, job, one.made_by, ago(one.made_at)]


def _audit_row(one: AuditEntry) -> list[object]:
    release, revision, reason = one.release_id or "", one.revision or "", one.reason or ""
    return [format_time(one.at), one.platform, one.actor, one.action, release, revision, reason]
