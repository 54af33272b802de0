"""Routes of features and vector tiles answer in the loop."""

from inspect import iscoroutinefunction

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from anabranch.serving.features import routes, tiles


@pytest.mark.parametrize(
    "route",
    [route for router in (routes.router, tiles.router) for route in router.routes],
    ids=lambda route: route.name,
)
def test_no_part_of_a_request_waits_for_a_thread(route: APIRoute) -> None:
    """FastAPI calls plain functions and classes in threads, which takes longer than all else of a small tile."""
    assert [part.call for part in parts_of(route.dependant) if not iscoroutinefunction(part.call)] == []


def parts_of(dependant: Dependant) -> list[Dependant]:
    return [dependant, *(part for child in dependant.dependencies for part in parts_of(child))]
