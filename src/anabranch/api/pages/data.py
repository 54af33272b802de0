"""Data: a map of what is published; and the API reference. Both are without data, which their scripts request."""

from fastapi import Request, Response

from anabranch.api.deps import CurrentServing
from anabranch.api.pages.rendering import CurrentPage, page_router

__all__ = ["router"]

router = page_router(open_to_all=True)


@router.get("/data")
async def show_data(page: CurrentPage, request: Request, serving: CurrentServing) -> Response:
    """The map; tiles and catalog start to load in the background, unless the caller is anonymous."""
    if request.state.principal:
        serving.warm()
    settings = request.app.state.settings
    return page.render("data.html", title="Data", basemap=settings.basemap, credit=settings.basemap_credit)


@router.get("/docs")
async def show_reference(page: CurrentPage) -> Response:
    """The API reference."""
    return page.render("reference.html", title="The HTTP API")
