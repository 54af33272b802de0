"""The handlers that publish, called as a worker calls them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Connection

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.engine.context import Context, Silence, TaskFacts
from anabranch.engine.errors import AnabranchError
from anabranch.engine.handler import call_handler, check_result, handlers_in
from anabranch.plugins.stac import handlers
from anabranch.testing.rasters import raster_facts

HANDLERS = {found.name: found for found in handlers_in(vars(handlers))}


class Equipped(Context):
    """A context with a database, as the app gives it to handlers."""

    url = ""

    @contextmanager
    def database(self) -> Iterator[Connection[Any]]:
        with connect(self.url, Role.HANDLER) as connection:
            yield connection


def call(url: str, name: str, **params: Any) -> Any:
    facts = TaskFacts("j" * 64, "task", "node", 0, 1, params, "correlation", None, "")
    ctx = Equipped(facts, Silence())
    ctx.url = url
    return check_result(HANDLERS[name], call_handler(HANDLERS[name], ctx), {})


def test_a_collection_and_its_items_are_registered(catalog_url: str) -> None:
    assert call(catalog_url, "stac.ensure_collection", id="heights") == {"collection": "heights", "changed": True}
    one = call(catalog_url, "stac.register_item", collection="heights", item=raster_facts("a"))
    assert one == {"items": [{"collection": "heights", "id": "a"}], "changed": 1}
    items = [raster_facts("a"), raster_facts("b")]
    assert call(catalog_url, "stac.register_items", collection="heights", items=items)["changed"] == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"id": "../../etc"}, "catalog.item_id"), ({"outputs": [{"href": "file:///etc"}]}, "handler.parameters")],
)
def test_what_is_no_item_fails_the_task_with_a_code(catalog_url: str, changes: Any, code: str) -> None:
    call(catalog_url, "stac.ensure_collection", id="heights")
    with pytest.raises(AnabranchError) as caught:
        call(catalog_url, "stac.register_item", collection="heights", item=raster_facts() | changes)
    assert caught.value.code == code
