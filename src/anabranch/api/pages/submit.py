"""Submit: files are uploaded, checked with the inputs of a workflow or as the order of a platform, and submitted."""

from dataclasses import replace
from typing import Annotated

from fastapi import Query, Response
from pydantic import Field

from anabranch.access import Scope
from anabranch.api.deps import CurrentCaller, CurrentGateway
from anabranch.api.pages.input_forms import Field as InputField
from anabranch.api.pages.input_forms import read_fields
from anabranch.api.pages.rendering import CurrentPage, page_router
from anabranch.api.platform.platforms import list_platforms
from anabranch.canonical import JsonObject
from anabranch.contract.platform import Platform
from anabranch.engine.registry import Registry
from anabranch.errors import NotFound
from anabranch.plugins.storage.kinds import BINARY, SIDECARS, TEXT, Kind
from anabranch.releases.preparation import DECIDED_INPUTS
from anabranch.strict_model import StrictModel

__all__ = ["router"]

router = page_router(scope=Scope.SUBMIT)
BY_KIND = {Kind.RASTER: "process_raster", Kind.VECTOR: "process_vector"}
UPLOADED = ("source", "sources", "sidecars")  # the inputs that take what is uploaded
ORDERED = (*UPLOADED, *DECIDED_INPUTS)  # what an order or its platform says, so that its options do not have it


class SubmitForm(StrictModel):
    """The workflow whose form is shown, or the platform that the order is for."""

    workflow: str | None = Field(None, max_length=63)
    platform: str | None = Field(None, max_length=40)
    data_type: str = Field("raster", max_length=20)


@router.get("/submit")
async def show_submit(
    page: CurrentPage, query: Annotated[SubmitForm, Query()], caller: CurrentCaller, gateway: CurrentGateway
) -> Response:
    """A place for files, and the form of the workflow or the order that they are for."""
    platforms = [one for one in await list_platforms(caller, gateway) if not one.retired]
    platform = next((one for one in platforms if one.id == query.platform), None)
    if query.platform and platform is None:
        raise NotFound("platform.not_found", f"there is no platform {query.platform!r}, or it takes no orders")
    workflow = _choose_workflow(gateway.registry, query, platform)
    schema = gateway.declaration(workflow).inputs_schema if workflow else {}
    inputs = schema.get("properties", {})
    names = set(inputs) if isinstance(inputs, dict) else set()
    return page.render(
        "submit.html",
        title="Submit",
        workflows=[(name, declared.workflow.name) for name, declared in sorted(gateway.registry.declarations.items())],
        platforms=platforms,
        platform=platform,
        own=platform is not None and platform.id == caller.platform,
        uploader=caller.platform,
        workflow=workflow,
        query=query,
        takes=next((name for name in UPLOADED[:2] if name in names), ""),
        takes_sidecars="sidecars" in names,
        fields=_list_options(schema) if platform else [one for one in read_fields(schema) if one.name not in UPLOADED],
        kinds=TEXT | BINARY,
        sidecars=list(SIDECARS),
        by_kind={kind: name for kind, name in BY_KIND.items() if name in gateway.registry.declarations},
    )


def _choose_workflow(registry: Registry, query: SubmitForm, platform: Platform | None) -> str | None:
    if platform:
        return platform.workflows.get(query.data_type) or next(iter(platform.workflows.values()), None)
    return query.workflow or next((name for name in BY_KIND.values() if name in registry.declarations), None)


def _list_options(schema: JsonObject) -> list[InputField]:
    """The options of an order. What is left as it is must stay out of it: a platform has defaults of its own."""
    fields = [one for one in read_fields(schema) if one.name not in ORDERED]
    return [one if one.widget == "checkbox" else replace(one, default=None) for one in fields]
