"""Translates the errors of third-party applications, so that our API responds to them (O6)."""

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from anabranch.errors import AnabranchError, InputError, NotFound
from anabranch.workflows.mistakes import reword

__all__ = ["Translate", "raise_errors", "translate_framework", "translate_invalid"]

MAX_SHOWN = 10  # mistakes of one request

Translate = Callable[[Exception], AnabranchError]


def raise_errors(app: FastAPI, translations: Mapping[type[Exception], Translate]) -> ASGIApp:
    """The application, changed to raise every error to its caller instead of responding itself."""
    app.exception_handlers.clear()
    app.add_exception_handler(HTTPException, _raising(translate_framework))
    app.add_exception_handler(RequestValidationError, _raise)
    for kind, translate in translations.items():
        app.add_exception_handler(kind, _raising(translate))
    stack = app.build_middleware_stack()
    inner: ASGIApp = stack.app  # type: ignore[attr-defined]  # the outermost would respond to unhandled errors
    app.middleware_stack = inner
    return app


def _raising(translate: Translate) -> Callable[[Request, Exception], Coroutine[None, None, Response]]:
    async def refuse(_: Request, error: Exception) -> Response:
        raise translate(error) from error

    return refuse


async def _raise(_: Request, error: Exception) -> Response:
    raise error


def translate_framework(error: Exception) -> AnabranchError:
    """Translate an HTTPException of the framework or of an application."""
    assert isinstance(error, HTTPException)  # noqa: S101  # for the types
    if error.status_code == HTTPStatus.NOT_FOUND:
        return NotFound("request.route", f"unknown path: {error.detail}")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return InputError("request.method", "this path does not support the method", remedy="Use GET.")
    return InputError("request.invalid", str(error.detail))


def _spell_mistakes(error: RequestValidationError) -> str:
    """What is wrong with the parameters of a request, each with its name."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc'][1:]))}: {reword(each['msg'])}" for each in error.errors()[:MAX_SHOWN]
    )


def translate_invalid(not_valid: Callable[[str], InputError]) -> dict[type[Exception], Translate]:
    """Translations of what Python and FastAPI raise for a request that is not valid."""

    def describe(error: Exception) -> AnabranchError:
        return not_valid(str(error) or type(error).__name__)

    def describe_mistakes(error: Exception) -> AnabranchError:
        assert isinstance(error, RequestValidationError)  # noqa: S101  # for the types
        return not_valid(_spell_mistakes(error))

    def describe_refusal(error: Exception) -> AnabranchError:
        translated = translate_framework(error)
        return describe(translated) if translated.code == "request.invalid" else translated

    return {
        ValueError: describe,
        RecursionError: describe,
        ArithmeticError: describe,
        RequestValidationError: describe_mistakes,
        HTTPException: describe_refusal,
    }
