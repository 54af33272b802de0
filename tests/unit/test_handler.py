from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from anabranch import Context, ContractViolationError, DefinitionError, HandlerResult, Retry, Transient, handler
from anabranch.canonical import Json
from anabranch.contract.workflows import HandlerRetry
from anabranch.engine.worker.handler import call_handler, check_result, describe_handler, handlers_in
from anabranch.errors import TaskError
from anabranch.testing import FakeContext
from anabranch.workflows.work import Handler, Runs

if TYPE_CHECKING:
    from decimal import Decimal


class Size(BaseModel):
    """A size."""

    width: int
    height: int = 1


class Area(BaseModel):
    """An area."""

    area: int


def declared(function: Any, **options: Any) -> Handler:
    (found,) = handlers_in({"function": handler("test", **options)(function)})
    return found


def context(**params: Json) -> Context:
    return FakeContext(Path("/nowhere"), params=params, index=7)


def measure(params: Size, ctx: Context) -> Area:
    """Measure a size.

    Slowly.
    """
    return Area(area=params.width * params.height)


class Measuring:
    """Measures."""

    made = 0

    def __init__(self, unit: int = 1) -> None:
        type(self).made += 1
        self.unit = unit

    def execute(self, params: Size, context: Context) -> Area:
        return Area(area=params.width * params.height * self.unit)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda params: None, ("params",)),
        (lambda ctx: None, ("ctx",)),
        (lambda params, context: None, ("params", "ctx")),
        (lambda ctx, p: None, ("ctx", "params")),
        (lambda params, context=None, verbose=False: None, ("params", "ctx")),
        (lambda params, **rest: None, ("params",)),
    ],
)
def test_what_a_handler_takes_is_told_by_its_names(function: Any, arguments: tuple[str, ...]) -> None:
    assert declared(function).arguments == arguments


def test_an_annotation_says_more_than_a_name() -> None:
    def swapped(params: Context, ctx: dict[str, Any]) -> Any:
        return params.index, ctx["width"]

    found = declared(swapped)
    assert found.arguments == ("ctx", "params")
    assert call_handler(found, context(width=3)) == (7, 3)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda: None, id="nothing"),
        pytest.param(lambda a, b: None, id="two unknown"),
        pytest.param(lambda params, ctx, more: None, id="three"),
        pytest.param(lambda params, *, ctx: None, id="by keyword"),
        pytest.param(lambda *args: None, id="any"),
        pytest.param(lambda **params: None, id="any by keyword"),
        type("NoExecute", (), {}),
        type("NeedsMore", (), {"__init__": lambda self, url: None, "execute": lambda self, params: None}),
        "not a function",
    ],
)
def test_g4_what_can_not_be_called_as_a_handler_is_refused(function: object) -> None:
    with pytest.raises(DefinitionError, match="'test'"):
        handlers_in({"ALL_HANDLERS": {"test": function}})


def test_an_annotation_that_names_nothing_is_refused_with_a_remedy() -> None:
    def priced(params: "dict[str, Decimal]") -> None: ...

    with pytest.raises(DefinitionError) as error:
        declared(priced)
    assert "Decimal" in error.value.message
    assert "annotations" in error.value.remedy


def test_a_class_is_made_when_it_is_first_called_and_only_then() -> None:
    found = declared(Measuring)
    assert (found.arguments, found.model, Measuring.made) == (("params", "ctx"), Size, 0)
    for _ in range(2):
        assert call_handler(found, context(width=3)) == Area(area=3)
    assert Measuring.made == 1


def test_what_is_listed_is_the_same_each_time_and_keeps_what_its_decorator_says() -> None:
    marked = handler("marked", queue="light")(lambda params: None)
    namespace = {"ALL_HANDLERS": {"marked": marked, "class": Measuring, "function": measure}}
    assert handlers_in(namespace) == handlers_in(namespace)
    assert handlers_in(namespace)[0].queue == "light"


def test_an_async_handler_runs_in_the_loop_in_every_form() -> None:
    class Waiting:
        async def execute(self, params: dict[str, Any]) -> None: ...

    assert declared(Waiting).runs is Runs.IN_LOOP
    with pytest.raises(DefinitionError, match="neither heavy nor quick"):
        declared(Waiting, heavy=True)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"success": True, "result": [1]}, [1]),
        ({"success": True}, None),
        ({"success": True, "result": Area(area=2)}, {"area": 2}),
        ({"success": True, "result": 1, "rows": 2}, {"success": True, "result": 1, "rows": 2}),
        ({"success": "yes", "result": 1}, {"success": "yes", "result": 1}),
        ({"result": 1}, {"result": 1}),
        (HandlerResult(success=True), {}),
        (HandlerResult(success=True, output=Area(area=2)), {"area": 2}),
    ],
)
def test_an_answer_is_unwrapped_only_when_it_says_nothing_else(answer: object, result: Json) -> None:
    assert check_result(declared(measure), answer, {}) == result


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ({"success": False, "error": "no file"}, TaskError, "no file"),
        ({"success": False, "retry": True}, Transient, "the handler says that it failed"),
        ({"success": False, "retry": False, "result": 1}, TaskError, "the handler says that it failed"),
        (HandlerResult(success=False, error_message="no raster"), TaskError, "no raster"),
    ],
)
def test_success_false_is_a_failure(answer: object, kind: type, message: str) -> None:
    failure = check_result(declared(measure), answer, {})
    assert isinstance(failure, kind)
    assert str(failure) == message


def test_what_a_result_measured_is_kept_with_what_the_context_did() -> None:
    metrics: dict[str, Json] = {"rows": 1, "files": 2}
    check_result(declared(measure), HandlerResult(success=True, metrics={"rows": 7}), metrics)
    assert metrics == {"rows": 7, "files": 2}


def test_an_object_is_no_result_in_any_form() -> None:
    for answer in (object(), {"success": True, "result": object()}, HandlerResult(success=True, output=object())):
        with pytest.raises(ContractViolationError, match="returned a object"):
            check_result(declared(measure), answer, {})


def test_a_handler_is_described_with_the_schemas_of_its_models() -> None:
    retry = Retry(max_attempts=4, initial_delay=timedelta(seconds=1))
    found = describe_handler(declared(measure, queue="light", timeout_seconds=60, retry=retry, quick=True))
    assert (found.name, found.summary, found.queue, found.timeout_seconds) == ("test", "Measure a size.", "light", 60)
    assert found.retry == HandlerRetry(4, "exponential", 1, 300)
    assert found.runs == "in the worker's thread for short ones"
    assert found.parameters is not None
    assert found.result is not None
    assert (found.parameters["required"], found.result["title"]) == (["width"], "Area")


def test_a_handler_without_models_is_described_without_schemas() -> None:
    found = describe_handler(declared(lambda params: None))
    assert (found.summary, found.parameters, found.result) == ("", None, None)
    assert describe_handler(declared(Measuring)).summary == "Measures."
