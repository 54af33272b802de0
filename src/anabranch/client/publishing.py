"""What is published, and the way back: lists, history, withdrawing, restoring, rolling back and replacing."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING

from anabranch.client.catalog import published_path
from anabranch.client.paths import segment, writers_path
from anabranch.client.requests import AsyncRequests, Requests
from anabranch.contract.answer import Page
from anabranch.contract.catalog import (
    CollectionAccess,
    Envelope,
    ItemChange,
    Publication,
    PublishedItem,
    RemovedCollection,
    SigningKey,
)
from anabranch.contract.jobs import SubmittedJob

if TYPE_CHECKING:
    from anabranch.canonical import Json

__all__ = ["AsyncPublishing", "Publishing"]


class Publishing(Requests):
    """Requests about published items."""

    def published_items(
        self,
        collection: str | None = None,
        *,
        job_id: str | None = None,
        made_by: str | None = None,
        older_than: str | None = None,
    ) -> Iterator[PublishedItem]:
        """Published items with the job and the handlers that made them, a page at a time.

        `made_by` names a handler; `older_than` a version of it: what was made by an earlier one.
        """
        query = {"collection": collection, "job_id": job_id, "made_by": made_by, "older_than": older_than}
        return self._all(lambda after: self._get(Page[PublishedItem], "/api/items", after=after, **query))

    def published_item(self, collection: str, item: str) -> PublishedItem:
        """A published item: its current publication, the job that published it, and the handlers that made it."""
        return self._get(PublishedItem, published_path(collection, item))

    def publications(self, collection: str, item: str) -> Iterator[Publication]:
        """The history of an item, the newest first, a page at a time; of one that was withdrawn, too."""
        path = published_path(collection, item, "publications")
        return self._all(lambda after: self._get(Page[Publication], path, after=after))

    def unpublish(
        self,
        collection: str,
        item: str,
        reason: str,
        *,
        confirm: bool = False,
        expected: int | None = None,
        dry_run: bool = False,
    ) -> ItemChange:
        """Withdraw an item; it can be restored for a while. It needs `confirm`, or is a dry run.

        `expected` is the number that you saw last: a Conflict if another has acted since.
        """
        body = {"reason": reason, "expected": expected, "dry_run": dry_run, "confirm": "yes" if confirm else ""}
        return self._send(ItemChange, "POST", published_path(collection, item, "unpublish"), body)

    def restore(
        self, collection: str, item: str, reason: str, *, expected: int | None = None, dry_run: bool = False
    ) -> ItemChange:
        """Show an item again as it was before it was withdrawn."""
        body = {"reason": reason, "expected": expected, "dry_run": dry_run}
        return self._send(ItemChange, "POST", published_path(collection, item, "restore"), body)

    def rollback(
        self,
        collection: str,
        item: str,
        reason: str,
        *,
        number: int | None = None,
        expected: int | None = None,
        dry_run: bool = False,
    ) -> ItemChange:
        """Show what a former publication of an item showed; without a number, what was shown before."""
        body = {"reason": reason, "number": number, "expected": expected, "dry_run": dry_run}
        return self._send(ItemChange, "POST", published_path(collection, item, "rollback"), body)

    def replace(
        self,
        collection: str,
        item: str,
        parameters: "Mapping[str, Json]",
        reason: str,
        *,
        workflow: str | None = None,
        expected: int | None = None,
    ) -> SubmittedJob:
        """Submit a job that makes new content for an item; readers see it when the job publishes it.

        Without `workflow` it is process_vector for a vector layer, and process_raster for others. `expected` is the
        number that you saw last: a Conflict if another has acted since, here or in the job.
        """
        body = {"reason": reason, "workflow": workflow, "parameters": dict(parameters), "expected": expected}
        return self._send(SubmittedJob, "POST", published_path(collection, item, "replace"), body)

    def remove_collection(self, collection: str) -> RemovedCollection:
        """Remove a collection that has no items."""
        return self._send(RemovedCollection, "DELETE", f"/api/collections/{segment(collection)}", confirm="yes")

    def collection_writers(self, collection: str) -> CollectionAccess:
        """The platform that a collection belongs to, and those that may publish into it."""
        return self._get(CollectionAccess, writers_path(collection))

    def add_writer(self, collection: str, platform: str) -> CollectionAccess:
        """Let another platform publish into a collection; it sees all of it."""
        return self._send(CollectionAccess, "PUT", writers_path(collection, platform))

    def remove_writer(self, collection: str, platform: str) -> CollectionAccess:
        """Let a platform no longer publish into a collection."""
        return self._send(CollectionAccess, "DELETE", writers_path(collection, platform))

    def manifest(self, collection: str, item: str) -> Envelope:
        """The signed manifest of an item."""
        return self._get(Envelope, published_path(collection, item, "manifest"))

    def signing_keys(self) -> list[SigningKey]:
        """The public keys that signed manifests, the newest first."""
        return self._get(list[SigningKey], "/api/signing-keys")


class AsyncPublishing(AsyncRequests):
    """The same, awaited."""

    def published_items(
        self,
        collection: str | None = None,
        *,
        job_id: str | None = None,
        made_by: str | None = None,
        older_than: str | None = None,
    ) -> AsyncIterator[PublishedItem]:
        """Published items with the job and the handlers that made them, a page at a time.

        `made_by` names a handler; `older_than` a version of it: what was made by an earlier one.
        """
        query = {"collection": collection, "job_id": job_id, "made_by": made_by, "older_than": older_than}
        return self._all(lambda after: self._get(Page[PublishedItem], "/api/items", after=after, **query))

    async def published_item(self, collection: str, item: str) -> PublishedItem:
        """A published item: its current publication, the job that published it, and the handlers that made it."""
        return await self._get(PublishedItem, published_path(collection, item))

    def publications(self, collection: str, item: str) -> AsyncIterator[Publication]:
        """The history of an item, the newest first, a page at a time; of one that was withdrawn, too."""
        path = published_path(collection, item, "publications")
        return self._all(lambda after: self._get(Page[Publication], path, after=after))

    async def unpublish(
        self,
        collection: str,
        item: str,
        reason: str,
        *,
        confirm: bool = False,
        expected: int | None = None,
        dry_run: bool = False,
    ) -> ItemChange:
        """Withdraw an item; it can be restored for a while. It needs `confirm`, or is a dry run.

        `expected` is the number that you saw last: a Conflict if another has acted since.
        """
        body = {"reason": reason, "expected": expected, "dry_run": dry_run, "confirm": "yes" if confirm else ""}
        return await self._send(ItemChange, "POST", published_path(collection, item, "unpublish"), body)

    async def restore(
        self, collection: str, item: str, reason: str, *, expected: int | None = None, dry_run: bool = False
    ) -> ItemChange:
        """Show an item again as it was before it was withdrawn."""
        body = {"reason": reason, "expected": expected, "dry_run": dry_run}
        return await self._send(ItemChange, "POST", published_path(collection, item, "restore"), body)

    async def rollback(
        self,
        collection: str,
        item: str,
        reason: str,
        *,
        number: int | None = None,
        expected: int | None = None,
        dry_run: bool = False,
    ) -> ItemChange:
        """Show what a former publication of an item showed; without a number, what was shown before."""
        body = {"reason": reason, "number": number, "expected": expected, "dry_run": dry_run}
        return await self._send(ItemChange, "POST", published_path(collection, item, "rollback"), body)

    async def replace(
        self,
        collection: str,
        item: str,
        parameters: "Mapping[str, Json]",
        reason: str,
        *,
        workflow: str | None = None,
        expected: int | None = None,
    ) -> SubmittedJob:
        """Submit a job that makes new content for an item; readers see it when the job publishes it.

        Without `workflow` it is process_vector for a vector layer, and process_raster for others. `expected` is the
        number that you saw last: a Conflict if another has acted since, here or in the job.
        """
        body = {"reason": reason, "workflow": workflow, "parameters": dict(parameters), "expected": expected}
        return await self._send(SubmittedJob, "POST", published_path(collection, item, "replace"), body)

    async def remove_collection(self, collection: str) -> RemovedCollection:
        """Remove a collection that has no items."""
        return await self._send(RemovedCollection, "DELETE", f"/api/collections/{segment(collection)}", confirm="yes")

    async def collection_writers(self, collection: str) -> CollectionAccess:
        """The platform that a collection belongs to, and those that may publish into it."""
        return await self._get(CollectionAccess, writers_path(collection))

    async def add_writer(self, collection: str, platform: str) -> CollectionAccess:
        """Let another platform publish into a collection; it sees all of it."""
        return await self._send(CollectionAccess, "PUT", writers_path(collection, platform))

    async def remove_writer(self, collection: str, platform: str) -> CollectionAccess:
        """Let a platform no longer publish into a collection."""
        return await self._send(CollectionAccess, "DELETE", writers_path(collection, platform))

    async def manifest(self, collection: str, item: str) -> Envelope:
        """The signed manifest of an item."""
        return await self._get(Envelope, published_path(collection, item, "manifest"))

    async def signing_keys(self) -> list[SigningKey]:
        """The public keys that signed manifests, the newest first."""
        return await self._get(list[SigningKey], "/api/signing-keys")
