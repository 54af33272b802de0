"""Calls that need the scope admin: keys, and the database as operators see it."""

from functools import partial

from anabranch.client.calls import Call
from anabranch.client.paths import any_segment
from anabranch.client.requests import AsyncRequests, Requests
from anabranch.contract.answer import Page, read
from anabranch.contract.stack import CheckedFunctions, Key, NewKey, Redeployed, Statistics, TaskRow

__all__ = ["Admin", "AsyncAdmin"]


class Admin(Requests):
    """Calls that need the scope admin."""

    def make_key(
        self, name: str, scope: str, *, platform: str | None = None, expires_in_seconds: int | None = None
    ) -> NewKey:
        """Create a key; its secret is returned only once."""
        given = {"name": name, "scope": scope, "platform": platform, "expires_in_seconds": expires_in_seconds}
        body = {name: value for name, value in given.items() if value is not None}
        return self._send(NewKey, "POST", "/api/keys", body)

    def list_keys(self, *, limit: int | None = None, before: str | None = None) -> Page[Key]:
        """Keys, the newest first."""
        return self._get(Page[Key], "/api/keys", limit=limit, before=before)

    def revoke_key(self, key_id: str) -> Key:
        """Revoke a key permanently."""
        return self._send(Key, "DELETE", f"/api/keys/{any_segment(key_id)}")

    def task_rows(self, job_id: str, *, limit: int | None = None, after: str | None = None) -> Page[TaskRow]:
        """The tasks of a job as stored in their rows."""
        return self._get(Page[TaskRow], f"/api/db/tasks/{any_segment(job_id)}", limit=limit, after=after)

    def statistics(self) -> Statistics:
        """Sizes of the database and its tables, and the jobs by status."""
        return self._get(Statistics, "/api/db/stats")

    def check_functions(self) -> CheckedFunctions:
        """Whether functions and tables match the API's release."""
        return self._get(CheckedFunctions, "/api/db/functions/test")

    def redeploy_schema(self) -> int:
        """Recreate the functions; returns their number."""
        call = Call(partial(read, Redeployed), "POST", "/api/db/schema/redeploy", query={"confirm": "yes"})
        return self._transport.call(call).functions


class AsyncAdmin(AsyncRequests):
    """Calls that need the scope admin."""

    async def make_key(
        self, name: str, scope: str, *, platform: str | None = None, expires_in_seconds: int | None = None
    ) -> NewKey:
        """Create a key; its secret is returned only once."""
        given = {"name": name, "scope": scope, "platform": platform, "expires_in_seconds": expires_in_seconds}
        body = {name: value for name, value in given.items() if value is not None}
        return await self._send(NewKey, "POST", "/api/keys", body)

    async def list_keys(self, *, limit: int | None = None, before: str | None = None) -> Page[Key]:
        """Keys, the newest first."""
        return await self._get(Page[Key], "/api/keys", limit=limit, before=before)

    async def revoke_key(self, key_id: str) -> Key:
        """Revoke a key permanently."""
        return await self._send(Key, "DELETE", f"/api/keys/{any_segment(key_id)}")

    async def task_rows(self, job_id: str, *, limit: int | None = None, after: str | None = None) -> Page[TaskRow]:
        """The tasks of a job as stored in their rows."""
        return await self._get(Page[TaskRow], f"/api/db/tasks/{any_segment(job_id)}", limit=limit, after=after)

    async def statistics(self) -> Statistics:
        """Sizes of the database and its tables, and the jobs by status."""
        return await self._get(Statistics, "/api/db/stats")

    async def check_functions(self) -> CheckedFunctions:
        """Whether functions and tables match the API's release."""
        return await self._get(CheckedFunctions, "/api/db/functions/test")

    async def redeploy_schema(self) -> int:
        """Recreate the functions; returns their number."""
        call = Call(partial(read, Redeployed), "POST", "/api/db/schema/redeploy", query={"confirm": "yes"})
        return (await self._transport.call(call)).functions
