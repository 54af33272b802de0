"""Many jobs in one request, one in each line."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response

from anabranch.access import Scope
from anabranch.api.answers.errors import describe
from anabranch.api.callbacks import seal_callbacks
from anabranch.api.deps import Caller, CurrentCaller, CurrentGateway, CurrentLimits, CurrentSettings, GivenKey, needs
from anabranch.api.openapi.declare import body, keyed, problems
from anabranch.api.requests.body import check_media_type, parse_object, too_large
from anabranch.api.requests.job_bodies import read_job
from anabranch.api.requests.models import JobRequest
from anabranch.api.security.limits import JobCount, Limits
from anabranch.api.streaming.ndjson import MEDIA_TYPES, Line, NdjsonResponse, read_batches
from anabranch.codes import status_of
from anabranch.engine.ports import Submitted
from anabranch.engine.submitting.submission import Order
from anabranch.errors import AnabranchError, InputError
from anabranch.gateway import Gateway

__all__ = ["router"]

log = structlog.get_logger()
router = APIRouter(prefix="/api/jobs", tags=["jobs"])

MAX_REFUSED_LINES = 1_000  # where fewer are accepted; a client of ours sends 500 at once
ANSWER_SCHEMA = {"schema": {"type": "object", "required": ["line", "status"]}}
ANSWER_DESCRIPTION = "One object in each line, in the order of the request: `line`, `status`, and a job or a problem"


@router.post(
    "/bulk",
    dependencies=[needs(Scope.SUBMIT)],
    response_class=Response,
    responses={
        200: {"description": ANSWER_DESCRIPTION, "content": {MEDIA_TYPES[0]: ANSWER_SCHEMA}},
        **problems("request.media_type", "request.too_large", "idempotency.key"),
    },
    openapi_extra=keyed(body(JobRequest, required=True, kinds=MEDIA_TYPES)),
)
async def submit_jobs(
    request: Request,
    caller: CurrentCaller,
    key: GivenKey,
    gateway: CurrentGateway,
    settings: CurrentSettings,
    limits: CurrentLimits,
) -> Response:
    """Accept jobs, one in each line, and respond with a line for each; a bad line does not affect the others."""
    check_media_type(request, MEDIA_TYPES, f"Send lines of JSON, with Content-Type: {MEDIA_TYPES[0]}.")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > settings.max_bulk_bytes:
        raise too_large(settings.max_bulk_bytes, "ANABRANCH_MAX_BULK_BYTES")
    gateway.require_session()
    bulk = _Bulk(gateway, limits, caller, key, request, settings.max_body_bytes, settings.max_bulk_bytes)
    return NdjsonResponse(bulk.answer)


@dataclass(frozen=True)
class _Bulk:
    """One request of many lines."""

    gateway: Gateway
    limits: Limits
    caller: Caller
    key: str | None
    request: Request
    longest: int
    most: int

    async def answer(self) -> AsyncIterator[bytes]:
        """The responses to each batch of lines once it is committed.

        After a failed batch no more lines are read, nor where most are wrong: answers are longer than short lines (S7).
        """
        last = accepted = refused = 0
        try:
            async for lines in read_batches(self.request, longest=self.longest, most=self.most):
                last = lines[-1].number
                await asyncio.sleep(0)  # lines that are all wrong wait for nothing, and others must be answered, too
                answers = await self._submit(lines)
                yield b"".join(map(self._write, lines, answers))
                if any(isinstance(answer, AnabranchError) and status_of(answer) == 503 for answer in answers):
                    return
                accepted += sum(isinstance(answer, Submitted) for answer in answers)
                refused += sum(isinstance(answer, AnabranchError) for answer in answers)
                if refused >= MAX_REFUSED_LINES and refused > accepted:
                    raise InputError(
                        "bulk.refused", f"{refused:,} lines were refused and {accepted:,} accepted; no more were read"
                    )
        except InputError as error:
            yield self._write(Line(last + 1, None), error)

    async def _submit(self, lines: Sequence[Line]) -> list[Submitted | AnabranchError]:
        with self.limits.counting_jobs(self.caller.principal) as count:
            read = [await self._read(line) for line in lines]
            made = iter(await self._hand_in([order for order in read if isinstance(order, Order)], count))
            answers = [next(made) if isinstance(order, Order) else order for order in read]
            count.made = created = sum(isinstance(answer, Submitted) and answer.is_new for answer in answers)
        refused = sum(isinstance(answer, AnabranchError) for answer in answers)
        log.info("jobs.accepted", first_line=lines[0].number, lines=len(lines), created=created, refused=refused)
        return answers

    async def _hand_in(self, orders: Sequence[Order], count: JobCount) -> list[Submitted | AnabranchError]:
        try:
            refused = await count.admit(orders, self.gateway.find_repeats)
            admitted = [order for order, error in zip(orders, refused, strict=True) if error is None]
            made = iter(await self.gateway.submit_batch(admitted))
            return [next(made) if error is None else error for error in refused]
        except AnabranchError as error:  # the answer has begun: it can only be reported in the lines
            return [error] * len(orders)

    async def _read(self, line: Line) -> Order | AnabranchError:
        try:
            if line.text is None:
                raise too_large(self.longest, "ANABRANCH_MAX_BODY_BYTES", what="the line")
            wanted = read_job(parse_object(line.text), self.gateway)
            callbacks = await seal_callbacks(self.gateway, self.caller.platform, wanted.callbacks)
        except AnabranchError as error:
            return error
        return Order(
            wanted.workflow,
            wanted.parameters,
            self.caller.platform,
            wanted.correlation_id or self.caller.correlation_id,
            wanted.priority,
            wanted.rerun,
            # A caller's own key has no line break: the keys of lines are no others.
            None if self.key is None else f"{self.key}\n{line.number}",
            self.caller.name,
            wanted.labels,
            callbacks,
            self.caller.scope,
        )

    def _write(self, line: Line, answer: Submitted | AnabranchError) -> bytes:
        body: dict[str, Any]  # JSON
        if isinstance(answer, Submitted):
            body = {"status": 202 if answer.created else 200, "job_id": answer.job_id, "created": answer.created}
        else:
            problem = describe(answer, path=self.request.url.path, correlation_id=self.caller.correlation_id)
            body = problem.model_dump(exclude_none=True)
        return json.dumps({"line": line.number, **body}).encode() + b"\n"
