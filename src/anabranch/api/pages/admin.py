"""Admin: keys, platforms, the audit, settings with their origins, and tasks that failed for good."""

from typing import Annotated

from fastapi import Query, Response
from fastapi.responses import RedirectResponse

from anabranch.access import Scope
from anabranch.api.deps import CurrentCaller, CurrentGateway, CurrentReads, CurrentSettings
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.pages.words import link
from anabranch.api.platform.platforms import list_audit, list_platforms
from anabranch.api.platform.requests import AuditQuery
from anabranch.api.requests.models import DeadLettersQuery, KeysQuery
from anabranch.api.routes.control import list_dead_letters
from anabranch.api.routes.keys import list_keys
from anabranch.api.routes.operations.settings import list_settings

__all__ = ["routers"]

reading, administering = page_router(), page_router(scope=Scope.ADMIN)


@reading.get("/admin")
async def show_admin(page: CurrentPage) -> Response:
    """The first of the pages that the caller may see."""
    return RedirectResponse(link("/admin/keys" if page.can(Scope.ADMIN) else "/admin/dead-letters"))


@administering.get("/admin/keys")
async def show_keys(page: CurrentPage, query: Annotated[KeysQuery, Query()], gateway: CurrentGateway) -> Response:
    """Keys, and a form for another one."""
    return page.render(
        "admin/keys.html", title="Keys", keys=await list_keys(query, gateway), query=query, scopes=list(Scope)
    )


@reading.get("/admin/platforms")
async def show_platforms(page: CurrentPage, caller: CurrentCaller, gateway: CurrentGateway) -> Response:
    """Partner systems with their policies."""
    return page.render("admin/platforms.html", title="Platforms", platforms=await list_platforms(caller, gateway))


@reading.get("/admin/audit")
async def show_audit(
    page: CurrentPage, query: Annotated[AuditQuery, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Response:
    """Who did what."""
    return page.render("admin/audit.html", title="Audit", entries=await list_audit(query, caller, gateway), query=query)


@administering.get("/admin/settings")
async def show_settings(page: CurrentPage, settings: CurrentSettings) -> Response:
    """Settings with their origins."""
    return page.render("admin/settings.html", title="Settings", settings=await list_settings(settings))


@reading.get("/admin/dead-letters")
async def show_dead_letters(
    page: CurrentPage, query: Annotated[DeadLettersQuery, Query()], reads: CurrentReads
) -> Response:
    """Tasks that failed for good, with why, and what replays them."""
    return page.render(
        "admin/dead_letters.html",
        title="Dead letters",
        letters=await list_dead_letters(query, reads),
        query=query,
        filters=query.model_dump(include={"workflow", "handler", "code"}, exclude_none=True),
    )


routers = (reading, administering)
