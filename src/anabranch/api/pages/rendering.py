"""Renders pages: the whole page, its content alone for a script that asks again with a key, or one part of it."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

import structlog
from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from anabranch.access import ANONYMOUS, NotAuthenticated, Principal, Scope
from anabranch.api.answers.errors import answer_framework, describe, find_invalid, find_missing, for_anonymous, respond
from anabranch.api.deps import needs
from anabranch.api.pages.navigation import PLACES
from anabranch.api.pages.words import FILTERS, GLOBALS, link
from anabranch.api.security.public_address import route_path
from anabranch.codes import status_of
from anabranch.errors import AnabranchError
from anabranch.public_url import read_origin_of

__all__ = ["FOLDER", "CurrentPage", "Page", "find_policy", "page_router", "show_missing"]

log = structlog.get_logger()
FOLDER = Path(__file__).parents[2] / "ui"
HEADERS = {"Referrer-Policy": "no-referrer", "Vary": "HX-Request, HX-Target"}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True)
class Page:
    """The page that a request asks for, and who asks; an anonymous caller has no principal."""

    request: Request

    @property
    def principal(self) -> Principal | None:
        """Who asks."""
        found: Principal | None = self.request.state.principal
        return found

    @property
    def is_part(self) -> bool:
        """Whether a script of the page asks, which has the rest of the page already."""
        return self.request.headers.get("HX-Request") == "true"

    def can(self, scope: str) -> bool:
        """Whether the caller may do what needs this scope; an anonymous caller may come back with a key."""
        return self.principal is None or self.principal.scope.includes(Scope(scope))

    def wants(self, *parts: str) -> bool:
        """Whether one of these parts will be shown: all are, unless a script asks for another one alone."""
        target = self._target
        return target is None or target in parts

    @property
    def _target(self) -> str | None:
        target = self.request.headers.get("HX-Target") if self.is_part else None
        return None if target in (None, "content") else target

    def render(self, template: str, *, title: str, status: int = 200, **values: object) -> Response:
        """The page of a template: all of it, its content alone, or the block that is named as what will be replaced."""
        principal = self.principal
        context = {
            **values,
            "title": title,
            "layout": "content.html" if self.is_part else "page.html",
            "can": self.can,
            "principal": None if principal in (None, ANONYMOUS) else principal,
            "places": [place for place in PLACES if self.can(place.scope)],
            "path": route_path(self.request.scope),
            "here": link(route_path(self.request.scope)) + (f"?{query}" if (query := self.request.url.query) else ""),
        }
        found = _environment().get_template(template)
        if self._target in found.blocks:
            text = "".join(found.blocks[self._target](found.new_context(context)))
        else:
            text = found.render(context)
        return HTMLResponse(text, status, {**HEADERS, "Content-Security-Policy": find_policy(self.request)})

    def render_error(self, error: AnabranchError) -> Response:
        """What went wrong, as a page."""
        known = for_anonymous(error) if self.principal is None else error
        problem = describe(known, path=self.request.url.path, correlation_id=self.request.state.correlation_id)
        return self.render("error.html", title=problem.title, status=problem.status, problem=problem)


class PageRoute(APIRoute):
    """Answers an anonymous caller with the shell of the page, without data, and every error with a page."""

    def get_route_handler(self) -> Handler:
        """The handler of the framework, within ours."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            page = Page(request)
            if page.principal is None and page.is_part:  # its script, before it has a key
                missing = NotAuthenticated("auth.missing", "this installation asks for a key")
                return respond(missing, path=request.url.path, correlation_id=request.state.correlation_id)
            if page.principal is None:
                return page.render("shell.html", title="Anabranch")
            request.scope["query_string"] = urlencode(
                parse_qsl(request.url.query)
            ).encode()  # a form sends blank fields
            try:
                return await handle(Request(request.scope, request.receive))
            except AnabranchError as error:
                if status_of(error) >= 500:
                    log.warning("page.failed", code=error.code, reason=error.message, path=request.url.path)
                return page.render_error(error)
            except RequestValidationError as error:
                return page.render_error(find_invalid(request, error))

        return answer


def page_router(*, open_to_all: bool = False, scope: Scope = Scope.READ) -> APIRouter:
    """A router for pages, which are no part of the API's description; all callers may see one without data."""
    if open_to_all:
        return APIRouter(include_in_schema=False)
    return APIRouter(include_in_schema=False, route_class=PageRoute, dependencies=[needs(scope)])


async def show_missing(request: Request, error: Exception) -> Response:
    """That an address is none: a page for browsers, whose reader needs a way back, else a problem document."""
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return await answer_framework(request, error)
    response = Page(request).render_error(find_missing(request))
    response.headers.append("Vary", "Accept")
    return response


def find_policy(request: Request) -> str:
    """Nothing of another origin but the base map, no script and no style that is not a file of ours."""
    basemap: str | None = request.app.state.settings.basemap
    others = f" {read_origin_of(basemap)}" if basemap and not basemap.startswith("/") else ""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        f"connect-src 'self'{others}; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


async def _get_page(request: Request) -> Page:
    return Page(request)


CurrentPage = Annotated[Page, Depends(_get_page)]


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.globals.update(GLOBALS)
    made.globals["ui"] = made.get_template("macros.html").module  # of every block, also of one that is rendered alone
    return made
