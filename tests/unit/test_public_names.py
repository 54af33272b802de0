"""The names that plugins may import; one that leaves or changes breaks them."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import partialmethod
from importlib import import_module
from operator import attrgetter
from typing import Any

import httpx
import pytest

from anabranch.client import Admin, AsyncAdmin, AsyncClient, Client
from anabranch.client.webhooks import AsyncWebhooks, Webhooks
from anabranch.errors import NotFound

PUBLIC = {
    "anabranch": "AnabranchError Breaker BusinessLogicError Checkpoint Conflict Context ContractViolationError"
    " DatabaseError DefinitionError HandlerContext HandlerResult Input InputError Interrupted Job JobBase"
    " JobDeclaration NotFound Permanent PublishedTable Resource ResourceNotFoundError Retry ServiceBusError TaskContext"
    " TaskError TaskExecutionError TaskSpec Throttled Transient Unavailable ValidationError choose end expr fan_in gate"
    " handler item register_handler register_job task wait workflow workflow_named",
    "anabranch.testing.clock": "Clock SteppedClock",
    "anabranch.testing.postgres": "Databases catalog_template catalog_url clock database_url databases"
    " empty_database_url postgres",
    "anabranch.testing.tier_suite": "TierSuite code_of",
}


@pytest.mark.parametrize(("module", "names"), PUBLIC.items())
def test_the_public_names_stay(module: str, names: str) -> None:
    found = import_module(module)
    assert sorted(found.__all__) == sorted(names.split())
    assert [name for name in found.__all__ if not hasattr(found, name)] == []


ITERATED = {"all_tasks", "all_events", "all_logs", "items", "publications", "published_items", "submit_many", "stream"}
ITERATED |= {"list", "deliveries"}
PLAIN = {"tile_url"}  # they send nothing
OTHERWISE = {
    *PLAIN,
    "close",
    "bundle",
    "download",
    "hash_published",
    "upload",
    "stream",
    "submit_many",
}  # tested with a server that answers
SAMPLES: dict[str, Any] = {  # an argument for each name
    "limit": 3, "attempt": 2, "session": 7, "most": 4, "expires_in_seconds": 60, "priority": 1, "index": 5,
    "after": "9", "rerun": True, "dry_run": True, "draining": False, "nodes": ["a"], "jobs": ["j"],
    "parameters": {"n": 1}, "labels": {"n": "1"}, "payload": {"n": 2}, "timeout": 0.1, "on_change": None,
    "bbox": [1, 2, 3, 4], "callbacks": [{"url": "u"}],
}  # fmt: skip
Requests = list[tuple[str, str, bytes]]


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    return {name: found for name, found in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """What is sent; everything is answered by 404."""
    sent: Requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, str(request.url), request.read()))
        return httpx.Response(404, json={"code": "some.code", "detail": "no"})

    for kind in (httpx.Client, httpx.AsyncClient):
        made = partialmethod(kind.__init__, transport=httpx.MockTransport(answer))
        monkeypatch.setattr(kind, "__init__", made)
    return sent


@pytest.mark.parametrize(("one", "other"), [(Client, AsyncClient), (Admin, AsyncAdmin), (Webhooks, AsyncWebhooks)])
def test_both_clients_have_the_same_methods_parameters_and_docs(one: type, other: type) -> None:
    assert methods(one).keys() == methods(other).keys()
    for name, method in methods(one).items():
        twin = methods(other)[name]
        assert inspect.signature(method).parameters == inspect.signature(twin).parameters, name
        assert inspect.getdoc(method) == inspect.getdoc(twin), name
        answer, awaited = (inspect.signature(each).return_annotation for each in (method, twin))
        assert str(awaited).replace("AsyncIterator", "Iterator") == str(answer), name
        assert inspect.iscoroutinefunction(twin) != (name in ITERATED | PLAIN), name


@pytest.mark.parametrize(
    "name",
    [
        *sorted(methods(Client).keys() - OTHERWISE),
        *(f"admin.{name}" for name in sorted(methods(Admin))),
        *(f"webhooks.{name}" for name in sorted(methods(Webhooks))),
    ],
)
async def test_both_clients_send_the_same_request(name: str, requests: Requests) -> None:
    with Client("http://127.0.0.1:1") as client, suppress(NotFound):
        call(client, name, list)
    async with AsyncClient("http://127.0.0.1:1") as twin:
        with suppress(NotFound):
            await call(twin, name, collect)
    first, second = requests
    assert first == second


def call(client: Client | AsyncClient, name: str, iterate: Callable[[Any], Any]) -> Any:  # as the method returns it
    method = attrgetter(name)(client)
    made = method(**{one: SAMPLES.get(one, one) for one in inspect.signature(method).parameters})
    return iterate(made) if name.rpartition(".")[2] in ITERATED else made


async def collect(made: Any) -> list[Any]:  # items of any kind
    return [item async for item in made]
