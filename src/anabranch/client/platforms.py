"""Work orders of partner systems, their releases, and decisions on them."""

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING

from anabranch.client.calls import Call, Steps
from anabranch.client.errors import TimedOut
from anabranch.client.operations import fresh_key, poll, retry_while_unavailable
from anabranch.client.paths import any_segment, encode_body
from anabranch.client.requests import AsyncRequests, Requests
from anabranch.contract.answer import Page, read
from anabranch.contract.platform import Accepted, AuditEntry, Decision, Platform, Release, WorkOrder
from anabranch.contract.previews import Preview
from anabranch.durations import spell_duration

if TYPE_CHECKING:
    from anabranch.canonical import Json

__all__ = ["AsyncPlatforms", "Platforms"]


def release_path(release_id: str, action: str) -> str:
    """The path of an action on a release."""
    return f"/api/platform/releases/{any_segment(release_id)}/{action}"


def submit_order(
    order: "Mapping[str, Json]", shape: str | None, *, dry_run: bool, idempotency_key: str | None
) -> Steps[Accepted]:
    """Submit a work order, with one idempotency key for all attempts."""
    path = f"/api/platform/{any_segment(shape)}/submit" if shape else "/api/platform/submit"
    key = fresh_key() if idempotency_key is None else idempotency_key
    query = {"dry_run": dry_run}
    call = Call(partial(read, Accepted), "POST", path, body=encode_body(dict(order)), query=query, key=key)
    return retry_while_unavailable(lambda: call)


def wait_for_release(name: str, timeout: float | None) -> Steps[Release]:
    """Wait until the newest revision of a release was processed."""

    def describe(seen: Release | None) -> TimedOut:
        state = f"is still {seen.processing_status}" if seen else "could not be read"
        said = f"release {name} {state} after {spell_duration(timeout or 0)}"
        return TimedOut(
            "release.timed_out", said, remedy=f"It continues: see it with `anabranch releases show {name}`."
        )

    return poll(status_call(name), lambda seen: seen.processing_status in ("completed", "failed"), timeout, describe)


def status_call(name: str) -> Call[Release]:
    """A request for the release of any id."""
    return Call(partial(read, Release), "GET", f"/api/platform/status/{any_segment(name)}")


class Platforms(Requests):
    """Requests of partner systems."""

    def submit(
        self,
        order: "Mapping[str, Json]",
        *,
        shape: str | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Accepted:
        """Submit a work order; `shape` is the platform whose own shape it has. The same order is the same release.

        It is retried while the server is unavailable, with one idempotency key: it is accepted once.
        """
        return self._run(submit_order(order, shape, dry_run=dry_run, idempotency_key=idempotency_key))

    def status(self, name: str) -> Release:
        """The release of a request, an asset, a release or a job, by its id."""
        return self._transport.call(status_call(name))

    def wait(self, name: str, timeout: float | None = None) -> Release:
        """Wait until a release was processed, completed or failed, and return it; TimedOut after `timeout` seconds.

        It may still wait for an approval then.
        """
        return self._run(wait_for_release(name, timeout))

    def latest(self, asset_id: str) -> Release:
        """The newest published release of an asset."""
        return self._get(Release, f"/api/platform/assets/{any_segment(asset_id)}/latest")

    def releases(
        self,
        *,
        asset_id: str | None = None,
        processing_status: str | None = None,
        approval_status: str | None = None,
        latest: bool = False,
        refs: Mapping[str, str] | None = None,
    ) -> Iterator[Release]:
        """Releases, the newest first, a page at a time."""
        query = {
            "asset_id": asset_id,
            "processing_status": processing_status,
            "approval_status": approval_status,
            "latest": latest,
            "ref": [f"{name}={value}" for name, value in (refs or {}).items()],
        }
        return self._all(lambda before: self._get(Page[Release], "/api/platform/releases", before=before, **query))

    def approvals(self) -> Iterator[Release]:
        """Releases that wait for an approval, a page at a time."""
        return self._all(lambda before: self._get(Page[Release], "/api/approvals", before=before))

    def preview(self, release_id: str) -> Preview:
        """What a release that waits for its review would publish, with links to look at it."""
        return self._get(Preview, release_path(release_id, "preview"))

    def approve(self, release_id: str, reason: str | None = None, *, revision: int | None = None) -> Release:
        """Approve a release; its job goes on and publishes it. Conflict if a revision came after the given one."""
        body = {"reason": reason, "revision": revision}
        return self._send(Release, "POST", release_path(release_id, "approve"), body)

    def reject(self, release_id: str, reason: str, *, revision: int | None = None) -> Release:
        """Reject a release; nothing of it is published. Conflict if a revision came after the given one."""
        body = {"reason": reason, "revision": revision}
        return self._send(Release, "POST", release_path(release_id, "reject"), body)

    def revoke(self, release_id: str, reason: str) -> Release:
        """Take back the approval of a release: readers no longer see it."""
        return self._send(Release, "POST", release_path(release_id, "revoke"), {"reason": reason})

    def rollback(
        self,
        release_id: str,
        reason: str,
        *,
        number: int | None = None,
        revision: int | None = None,
        expected: int | None = None,
    ) -> Release:
        """Show another revision of a release: the one below, one by its number, or that of a publication of its first
        item. Conflict if it shows another number than `expected`.
        """
        body = {"reason": reason, "number": number, "revision": revision, "expected": expected}
        return self._send(Release, "POST", release_path(release_id, "rollback"), body)

    def clear(self, release_id: str, clearance: str, reason: str | None = None) -> Release:
        """Set who may read a release: uncleared, internal or public."""
        body = {"clearance": clearance, "reason": reason}
        return self._send(Release, "POST", release_path(release_id, "clearance"), body)

    def resubmit(self, release_id: str) -> Accepted:
        """Submit the last order of a release again."""
        return self._send(Accepted, "POST", release_path(release_id, "resubmit"))

    def decide(
        self,
        action: str,
        release_ids: list[str],
        reason: str | None = None,
        *,
        revisions: Mapping[str, int] | None = None,
    ) -> list[Decision]:
        """Approve, reject or revoke up to 100 releases, each by itself; `revisions` are those that were reviewed."""
        body = {"action": action, "release_ids": release_ids, "reason": reason, "revisions": dict(revisions or {})}
        return self._send(list[Decision], "POST", "/api/platform/releases", body)

    def delete_asset(self, asset_id: str, reason: str | None = None) -> None:
        """Mark an asset as deleted; nothing of it is removed."""
        path = f"/api/platform/assets/{any_segment(asset_id)}/delete"
        self._send(NoneType, "POST", path, {"reason": reason})

    def restore_asset(self, asset_id: str, reason: str | None = None) -> None:
        """Restore an asset that was deleted."""
        path = f"/api/platform/assets/{any_segment(asset_id)}/restore"
        self._send(NoneType, "POST", path, {"reason": reason})

    def requests(self, *, release_id: str | None = None) -> Iterator[WorkOrder]:
        """Work orders as they were accepted, the newest first, a page at a time."""
        path = "/api/platform/requests"
        return self._all(lambda before: self._get(Page[WorkOrder], path, before=before, release_id=release_id))

    def audit(self, *, asset_id: str | None = None) -> Iterator[AuditEntry]:
        """Who did what, the newest first, a page at a time."""
        path = "/api/platform/audit"
        return self._all(lambda before: self._get(Page[AuditEntry], path, before=before, asset_id=asset_id))

    def platforms(self) -> list[Platform]:
        """Partner systems with their references, workflows and policies."""
        return self._get(list[Platform], "/api/platforms")

    def save(self, platform: str, given: "Mapping[str, Json]") -> Platform:
        """Make a platform, or change one."""
        return self._send(Platform, "PUT", f"/api/platforms/{any_segment(platform)}", dict(given))

    def retire(self, platform: str) -> Platform:
        """Retire a platform: it takes no more orders, and keeps its assets."""
        return self._send(Platform, "DELETE", f"/api/platforms/{any_segment(platform)}")


class AsyncPlatforms(AsyncRequests):
    """The same, awaited."""

    async def submit(
        self,
        order: "Mapping[str, Json]",
        *,
        shape: str | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Accepted:
        """Submit a work order; `shape` is the platform whose own shape it has. The same order is the same release.

        It is retried while the server is unavailable, with one idempotency key: it is accepted once.
        """
        return await self._run(submit_order(order, shape, dry_run=dry_run, idempotency_key=idempotency_key))

    async def status(self, name: str) -> Release:
        """The release of a request, an asset, a release or a job, by its id."""
        return await self._transport.call(status_call(name))

    async def wait(self, name: str, timeout: float | None = None) -> Release:  # noqa: ASYNC109  as in Client.wait
        """Wait until a release was processed, completed or failed, and return it; TimedOut after `timeout` seconds.

        It may still wait for an approval then.
        """
        return await self._run(wait_for_release(name, timeout))

    async def latest(self, asset_id: str) -> Release:
        """The newest published release of an asset."""
        return await self._get(Release, f"/api/platform/assets/{any_segment(asset_id)}/latest")

    def releases(
        self,
        *,
        asset_id: str | None = None,
        processing_status: str | None = None,
        approval_status: str | None = None,
        latest: bool = False,
        refs: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Release]:
        """Releases, the newest first, a page at a time."""
        query = {
            "asset_id": asset_id,
            "processing_status": processing_status,
            "approval_status": approval_status,
            "latest": latest,
            "ref": [f"{name}={value}" for name, value in (refs or {}).items()],
        }
        return self._all(lambda before: self._get(Page[Release], "/api/platform/releases", before=before, **query))

    def approvals(self) -> AsyncIterator[Release]:
        """Releases that wait for an approval, a page at a time."""
        return self._all(lambda before: self._get(Page[Release], "/api/approvals", before=before))

    async def preview(self, release_id: str) -> Preview:
        """What a release that waits for its review would publish, with links to look at it."""
        return await self._get(Preview, release_path(release_id, "preview"))

    async def approve(self, release_id: str, reason: str | None = None, *, revision: int | None = None) -> Release:
        """Approve a release; its job goes on and publishes it. Conflict if a revision came after the given one."""
        body = {"reason": reason, "revision": revision}
        return await self._send(Release, "POST", release_path(release_id, "approve"), body)

    async def reject(self, release_id: str, reason: str, *, revision: int | None = None) -> Release:
        """Reject a release; nothing of it is published. Conflict if a revision came after the given one."""
        body = {"reason": reason, "revision": revision}
        return await self._send(Release, "POST", release_path(release_id, "reject"), body)

    async def revoke(self, release_id: str, reason: str) -> Release:
        """Take back the approval of a release: readers no longer see it."""
        return await self._send(Release, "POST", release_path(release_id, "revoke"), {"reason": reason})

    async def rollback(
        self,
        release_id: str,
        reason: str,
        *,
        number: int | None = None,
        revision: int | None = None,
        expected: int | None = None,
    ) -> Release:
        """Show another revision of a release: the one below, one by its number, or that of a publication of its first
        item. Conflict if it shows another number than `expected`.
        """
        body = {"reason": reason, "number": number, "revision": revision, "expected": expected}
        return await self._send(Release, "POST", release_path(release_id, "rollback"), body)

    async def clear(self, release_id: str, clearance: str, reason: str | None = None) -> Release:
        """Set who may read a release: uncleared, internal or public."""
        body = {"clearance": clearance, "reason": reason}
        return await self._send(Release, "POST", release_path(release_id, "clearance"), body)

    async def resubmit(self, release_id: str) -> Accepted:
        """Submit the last order of a release again."""
        return await self._send(Accepted, "POST", release_path(release_id, "resubmit"))

    async def decide(
        self,
        action: str,
        release_ids: list[str],
        reason: str | None = None,
        *,
        revisions: Mapping[str, int] | None = None,
    ) -> list[Decision]:
        """Approve, reject or revoke up to 100 releases, each by itself; `revisions` are those that were reviewed."""
        body = {"action": action, "release_ids": release_ids, "reason": reason, "revisions": dict(revisions or {})}
        return await self._send(list[Decision], "POST", "/api/platform/releases", body)

    async def delete_asset(self, asset_id: str, reason: str | None = None) -> None:
        """Mark an asset as deleted; nothing of it is removed."""
        path = f"/api/platform/assets/{any_segment(asset_id)}/delete"
        await self._send(NoneType, "POST", path, {"reason": reason})

    async def restore_asset(self, asset_id: str, reason: str | None = None) -> None:
        """Restore an asset that was deleted."""
        path = f"/api/platform/assets/{any_segment(asset_id)}/restore"
        await self._send(NoneType, "POST", path, {"reason": reason})

    def requests(self, *, release_id: str | None = None) -> AsyncIterator[WorkOrder]:
        """Work orders as they were accepted, the newest first, a page at a time."""
        path = "/api/platform/requests"
        return self._all(lambda before: self._get(Page[WorkOrder], path, before=before, release_id=release_id))

    def audit(self, *, asset_id: str | None = None) -> AsyncIterator[AuditEntry]:
        """Who did what, the newest first, a page at a time."""
        path = "/api/platform/audit"
        return self._all(lambda before: self._get(Page[AuditEntry], path, before=before, asset_id=asset_id))

    async def platforms(self) -> list[Platform]:
        """Partner systems with their references, workflows and policies."""
        return await self._get(list[Platform], "/api/platforms")

    async def save(self, platform: str, given: "Mapping[str, Json]") -> Platform:
        """Make a platform, or change one."""
        return await self._send(Platform, "PUT", f"/api/platforms/{any_segment(platform)}", dict(given))

    async def retire(self, platform: str) -> Platform:
        """Retire a platform: it takes no more orders, and keeps its assets."""
        return await self._send(Platform, "DELETE", f"/api/platforms/{any_segment(platform)}")
