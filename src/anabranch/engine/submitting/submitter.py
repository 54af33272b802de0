"""Checks callers' orders against their workflows, and submits them."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from anabranch.engine.model import SessionId
from anabranch.engine.ports import JobStore, Submitted
from anabranch.engine.submitting.batcher import Answer, SubmitBatcher
from anabranch.engine.submitting.submission import IdempotencyKey, Order, Submission
from anabranch.errors import AnabranchError, InputError, NotFound
from anabranch.workflows.stages import Declaration

__all__ = ["Submitter"]


class Submitter:
    """Submits under one session; `find` gives the declaration of a workflow, and keys are kept for a while."""

    def __init__(
        self, store: JobStore, session: SessionId, find: Callable[[str], Declaration], keep: timedelta
    ) -> None:
        """For this session only: a new session needs a new one."""
        self._store = store
        self._batcher = SubmitBatcher(store, session)
        self._find = find
        self._keep = keep

    async def submit(self, order: Order) -> Submitted:
        """The job of an order; the same order is the same job, and the same key is the same answer (E15)."""
        prepared = await self._prepare(order)
        return await self._batcher.submit(prepared) if isinstance(prepared, Submission) else prepared

    async def submit_batch(self, orders: Sequence[Order]) -> list[Answer]:
        """The jobs of many orders, in one commit; a wrong order does not affect the others."""
        prepared = [await self._try(order) for order in orders]
        submissions = [one for one in prepared if isinstance(one, Submission)]
        answers = iter(await self._batcher.submit_batch(submissions) if submissions else [])
        return [next(answers) if isinstance(one, Submission) else one for one in prepared]

    async def find_repeats(self, orders: Sequence[Order]) -> list[bool]:
        """Whether each order would be answered without a new job: with one that exists, or an error."""
        prepared = [await self._try(order) for order in orders]
        repeats = iter(await self._store.find_repeats([one for one in prepared if isinstance(one, Submission)]))
        return [next(repeats) if isinstance(one, Submission) else True for one in prepared]

    async def _prepare(self, order: Order) -> Submission | Submitted:
        """An order checked; or the answer to it under its key, where the workflow takes it no more."""
        key = order.named(self._keep)
        try:
            return self._check(order, key)
        except (InputError, NotFound):
            if key and (known := await self._store.recall(order.scope, key)):
                return known
            raise

    async def _try(self, order: Order) -> Submission | Answer:
        try:
            return await self._prepare(order)
        except AnabranchError as error:
            return error

    def _check(self, order: Order, key: IdempotencyKey | None) -> Submission:
        declared = self._find(order.workflow_id)
        checked = declared.check(order.parameters)
        priority = order.priority or declared.workflow.priority
        return (
            Submission(
                declared.workflow,
                checked,
                order.scope,
                priority,
                order.rerun,
                order.correlation_id,
                key,
                begins=True,
                parts=declared.parts,
                by=order.by,
                labels=order.labels,
                callbacks=order.callbacks,
                by_scope=order.by_scope,
            )
            .sound()
            .require_own_uploads()
        )
