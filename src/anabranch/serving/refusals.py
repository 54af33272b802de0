"""What the applications of others refuse, as errors of ours: the API that holds them answers (O6)."""

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from anabranch.errors import AnabranchError, InputError, NotFound

__all__ = ["Translate", "let_out", "translate_framework"]

Translate = Callable[[Exception], AnabranchError]


def let_out(app: FastAPI, refusals: Mapping[type[Exception], Translate]) -> ASGIApp:
    """The application, which answers no error itself but raises it to whoever called."""
    app.exception_handlers.clear()
    app.add_exception_handler(HTTPException, _raising(translate_framework))
    app.add_exception_handler(RequestValidationError, _raise)
    for kind, translate in refusals.items():
        app.add_exception_handler(kind, _raising(translate))
    stack = app.build_middleware_stack()
    inner: ASGIApp = stack.app  # type: ignore[attr-defined]  # the outermost would answer what nobody else does
    app.middleware_stack = inner
    return app


def _raising(translate: Translate) -> Callable[[Request, Exception], Coroutine[None, None, Response]]:
    async def refuse(_: Request, error: Exception) -> Response:
        raise translate(error) from error

    return refuse


async def _raise(_: Request, error: Exception) -> Response:
    raise error


def translate_framework(error: Exception) -> AnabranchError:
    """What the framework, or an application of others in its words, refuses."""
    assert isinstance(error, HTTPException)  # noqa: S101  # for the types
    if error.status_code == HTTPStatus.NOT_FOUND:
        return NotFound("request.route", f"there is no such path: {error.detail}")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return InputError("request.method", "this path takes another method", remedy="Use GET.")
    return InputError("request.invalid", str(error.detail))
