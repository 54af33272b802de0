"""Turns errors into problem documents (RFC 9457), the one format of all errors (O6)."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from anabranch.access import redact
from anabranch.api.security.root_path import at_root
from anabranch.codes import code_of, find_remedy, status_of
from anabranch.durations import spell_duration
from anabranch.engine.ports import Refused, SessionGone
from anabranch.errors import AnabranchError, Gone, InputError, Kind, NotFound, Unavailable
from anabranch.workflows.inputs import InvalidParameters
from anabranch.workflows.mistakes import list_errors, nearest, reword

__all__ = [
    "InvalidRequest",
    "Mistake",
    "Problem",
    "TooManyRequests",
    "add_handlers",
    "answer_framework",
    "describe",
    "find_invalid",
    "find_missing",
    "for_anonymous",
    "list_mistakes",
    "respond",
]

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"

CHALLENGE = 'Bearer realm="anabranch"'
# Those of a code stand above those of its status.
HEADERS: Mapping[int | str, Mapping[str, str]] = {
    401: {"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'},
    503: {"Retry-After": "1"},
    "auth.missing": {"WWW-Authenticate": CHALLENGE},
    "auth.forbidden": {"WWW-Authenticate": f'{CHALLENGE}, error="insufficient_scope"'},
    "auth.unmapped": {"WWW-Authenticate": f'{CHALLENGE}, error="insufficient_scope"'},
}
SEE_OPENAPI = "The routes and what they take are described at /openapi.json."
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Mistake(BaseModel):
    """One mistake in a request."""

    model_config = ConfigDict(frozen=True)
    where: str
    detail: str


class TooManyRequests(AnabranchError):
    """A caller exceeds its limit; `seconds` says when it may try again."""

    kind = Kind.THROTTLED

    def __init__(self, code: str, message: str, seconds: float = 1) -> None:
        self.seconds = math.ceil(seconds)
        when = datetime.now(UTC) + timedelta(seconds=self.seconds)
        remedy = f"Try again in {spell_duration(self.seconds)}, at {when:%Y-%m-%d %H:%M:%S} UTC."
        super().__init__(code, message, remedy=remedy)


class Problem(BaseModel):
    """What went wrong, under a stable code, and what to do about it."""

    model_config = ConfigDict(frozen=True)
    type: str = Field(description="The page of this code, relative to the API; below /ogc, the URI that OGC gives it.")
    title: str = Field(description="What the code means; the same for every problem of this type.")
    status: int
    detail: str = Field(description="What is wrong this time.")
    instance: str = Field(description="The path that was asked for.")
    code: str
    remedy: str | None = Field(None, description="What to do; absent where only a plugin could know.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    correlation_id: str
    errors: tuple[Mistake, ...] | None = None
    replaced_by: str | None = Field(None, description="The item that took the place of what is gone, as STAC.")


class InvalidRequest(InputError):
    """A request that its route does not accept, with every mistake in it."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        detail = "; ".join(f"{mistake.where}: {mistake.detail}" for mistake in mistakes)
        super().__init__("request.invalid", detail, remedy=SEE_OPENAPI)
        self.mistakes = tuple(mistakes)

    @classmethod
    def of(cls, error: ValidationError, *parents: str, known: Sequence[str] = ()) -> "InvalidRequest":
        """The mistakes that pydantic found, without the given values (S5); `known` are the names of the model."""
        found, more = list_errors(error)
        mistakes = [
            Mistake(where=".".join(map(str, (*parents, *e["loc"]))), detail=_detail_of(e, known)) for e in found
        ]
        return cls([*mistakes, Mistake(where=".".join(parents), detail=more)] if more else mistakes)


def describe(error: AnabranchError, *, path: str, correlation_id: str, uri: str | None = None) -> Problem:
    """An error as callers see it; its type is the page of its code, or a URI that a standard names."""
    status, known = status_of(error), code_of(error)
    return Problem(
        type=uri or at_root(f"/errors/{quote(error.code)}"),
        title=known.meaning.removesuffix(".") or HTTPStatus(status).phrase,
        status=status,
        detail=_detail(error),
        instance=quote(path),
        code=error.code,
        remedy=find_remedy(error.code, error.remedy) or None,
        retryable=known.retryable,
        correlation_id=correlation_id,
        errors=list_mistakes(error) or None,
        replaced_by=_find_replacement(error),
    )


def _find_replacement(error: AnabranchError) -> str | None:
    if not isinstance(error, Gone) or error.replaced_by is None:
        return None
    collection, item = error.replaced_by
    return at_root(f"/stac/collections/{quote(collection, safe='')}/items/{quote(item, safe='')}")


def list_mistakes(error: AnabranchError) -> tuple[Mistake, ...]:
    """Each of the mistakes that an error is about, if it says them one by one."""
    if isinstance(error, InvalidParameters):
        return tuple(
            Mistake(where=f"parameters.{name}" if name else "parameters", detail=message)
            for name, message in error.mistakes
        )
    return error.mistakes if isinstance(error, InvalidRequest) else ()


def respond(error: AnabranchError, *, path: str, correlation_id: str, uri: str | None = None) -> Response:
    """The response for an error."""
    problem = describe(error, path=path, correlation_id=correlation_id, uri=uri)
    body = json.dumps(problem.model_dump(exclude_none=True))  # in ASCII: a message may hold what UTF-8 can't
    headers = {**HEADERS.get(problem.status, {}), **HEADERS.get(error.code, {})}
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(error.seconds)
    return Response(redact(body), problem.status, headers, MEDIA_TYPE)


def add_handlers(app: FastAPI) -> None:
    """Turn every error of a route or the framework into a problem document."""
    app.add_exception_handler(AnabranchError, _answer)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(HTTPException, answer_framework)


async def _answer(request: Request, error: Exception) -> Response:
    if not isinstance(error, AnabranchError):
        raise error
    status = status_of(error)
    if status >= 500:
        log.warning("request.failed", code=error.code, reason=error.message, path=request.url.path, status=status)
    if request.state.principal is None:
        error = for_anonymous(error)
    return respond(error, path=request.url.path, correlation_id=request.state.correlation_id)


async def _answer_validation(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return await _answer(request, find_invalid(request, error))


def find_invalid(request: Request, error: RequestValidationError) -> InvalidRequest:
    """The mistakes that the framework found in a request."""
    # A request's line and headers are short, so there are few.
    known = _list_parameters(request)
    return InvalidRequest(
        [
            Mistake(where=".".join(map(str, each["loc"])), detail=_detail_of({**each, "loc": each["loc"][1:]}, known))
            for each in error.errors()
        ]
    )


def _list_parameters(request: Request) -> list[str]:
    """The query parameters of the route that was asked for, of its models and its own."""
    fields = getattr(getattr(request.scope.get("route"), "dependant", None), "query_params", ())
    models = [getattr(field.field_info.annotation, "model_fields", None) or {field.alias: field} for field in fields]
    return sorted(name for model in models for name in model)


def _detail_of(mistake: Mapping[str, Any], known: Sequence[str]) -> str:  # as pydantic has it
    """A mistake in our words; of a name that the model does not have, which one may be meant."""
    if mistake["type"] != "extra_forbidden" or len(mistake["loc"]) != 1 or not known:
        return reword(str(mistake["msg"]))
    hint = nearest(str(mistake["loc"][0]), known) or f"Known: {', '.join(known)}."
    return f"there is no such name. {hint}"


async def answer_framework(request: Request, error: Exception) -> Response:
    """The response for what the framework refuses: a path or a method that is not there, a body that can't be read."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code != 405:
        return await _answer(request, _framework_error(request, error))
    allowed = ", ".join(_methods(request))
    refused = InputError("request.method", f"{request.method} is not for this path", remedy=f"Use {allowed}.")
    response = await _answer(request, refused)
    response.headers["Allow"] = allowed
    return response


def _methods(request: Request) -> list[str]:
    # The framework names those of the first route only, and a path may have several.
    def serves(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    return [method for method in METHODS if serves("GET" if method == "HEAD" else method) or serves(method)]


def _framework_error(request: Request, error: HTTPException) -> AnabranchError:
    if error.status_code == 404:
        return find_missing(request)
    return InputError("request.invalid", str(error.detail), remedy=SEE_OPENAPI)


def find_missing(request: Request) -> NotFound:
    """That there is nothing at the path of a request."""
    return NotFound("request.route", f"there is no {request.url.path}", remedy=SEE_OPENAPI)


def for_anonymous(error: AnabranchError) -> AnabranchError:
    """The error as anonymous callers see it, without details."""
    # Which part fails is not for those who only look whether any does.
    if isinstance(error, Unavailable | SessionGone):
        remedy = "Try again; its operator finds the cause with `anabranch doctor`."
        return Unavailable("api.not_ready", "this API can't serve now", remedy=remedy)
    return error


def _detail(error: AnabranchError) -> str:
    # What a driver says names servers, users and rows: that is for the log.
    if isinstance(error, Refused):
        return "the database refused what it was given; the API's log says why"
    if error.code.startswith("database.") and error.code != "database.silent" and isinstance(error, Unavailable):
        return "the database can't be used now; the API's log says why"
    return error.message
