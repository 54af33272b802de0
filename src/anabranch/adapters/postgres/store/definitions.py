"""Stores the definitions of workflows that child jobs run, before the jobs that need them."""

from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

from anabranch.adapters.postgres.database import Database
from anabranch.canonical import Json, decode, encode
from anabranch.engine.submitting.submission import Submission
from anabranch.workflows.definition import Workflow

__all__ = ["PostgresDefinitions"]


class PostgresDefinitions:
    """Remembers stored definitions for the time `known_for`; retention removes unused ones."""

    def __init__(self, database: Database, known_for: timedelta) -> None:
        self._database = database
        self._known_for = known_for
        self._known: set[str] = set()
        self._known_until = 0.0

    async def store_parts(self, submissions: Sequence[Submission]) -> None:
        """Store the workflows of submissions that have parts, with these parts, unless they were stored recently."""
        for submission in submissions:
            if submission.workflow.parts:
                await self.store((submission.workflow, *submission.parts))

    def forget(self) -> None:
        """Store all definitions again when they are next needed."""
        self._known.clear()

    async def store(self, workflows: Sequence[Workflow]) -> None:
        """Store a workflow with its parts, unless they were stored recently."""
        if monotonic() > self._known_until:
            self.forget()
            self._known_until = monotonic() + self._known_for.total_seconds()
        if {one.hash for one in workflows} <= self._known:
            return
        rows: list[Json] = [
            {"hash": one.hash, "workflow": one.id, "definition": decode(one.text), "parts": _all_parts(one, workflows)}
            for one in workflows
        ]
        await self._database.call("keep_definitions", encode(rows))
        self._known.update(one.hash for one in workflows)


def _all_parts(workflow: Workflow, known: Sequence[Workflow]) -> list[Json]:
    """The hashes of all workflows below this one."""
    below = [one for one in known if one.hash in workflow.parts]
    return [*sorted({one.hash for one in below} | {str(part) for one in below for part in _all_parts(one, known)})]
