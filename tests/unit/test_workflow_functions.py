"""@workflow: a typed function is traced into a definition; what can't be is refused with file and line."""

import asyncio
import inspect
import pickle
import re
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, Field

from anabranch import (
    Context,
    DefinitionError,
    Input,
    Retry,
    choose,
    end,
    expr,
    fan_in,
    gate,
    handler,
    item,
    task,
    wait,
    workflow,
    workflow_named,
)
from anabranch.engine.registry import Registry, load_plugins
from anabranch.engine.worker.handler import call_handler, describe_handler, handlers_in
from anabranch.testing import FakeContext
from anabranch.workflows.expressions import parse
from anabranch.workflows.expressions.spelling import spell
from anabranch.workflows.nodes import FanInNode, FanOutNode, Folding, GateNode, Node, TaskNode, WorkflowNode
from anabranch.workflows.python.calls import NodeOptions, Options
from anabranch.workflows.rules import declared_keys
from anabranch.workflows.values import Fold
from anabranch.workflows.work import HandlerWork, WorkflowWork
from anabranch.workflows.yaml.load import load_yaml
from anabranch.workflows.yaml.write import write_yaml


@handler("math.square", queue="light")
def square(number: int, ctx: Context) -> int:
    """Square a number."""
    return number**2


@handler("math.add")
def add(numbers: list[int], start: int = 0) -> int:
    return sum(numbers, start)


@handler("text.split")
async def split(text: Annotated[str, Field(min_length=1)], *, at: str = " ") -> list[str]:
    return text.split(at)


class Scale(BaseModel):
    """How much larger."""

    factor: float
    name: str = ""


@handler("math.scale")
def scale(params: Scale, ctx: Context) -> dict[str, float]:
    return {"scaled": params.factor}


@handler("any")
def anything(params: dict[str, Any]) -> dict[str, Any]:
    return params


def nodes(function: Any) -> dict[str, Node]:
    return {node.name: node for node in function.workflow.nodes}


def edges(function: Any) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    return {node.name: (node.after, node.after_any) for node in function.workflow.nodes}


def refused(function: Any) -> list[str]:
    """What is said of the mistakes, each with its distance in lines from the function."""
    first = inspect.unwrap(function).__code__.co_firstlineno
    found = function.load().mistakes
    assert {mistake.file for mistake in found} <= {__file__}
    return [f"{mistake.line - first}: {mistake.message}. {mistake.hint}" for mistake in found]


# Handlers


def test_a_handler_is_still_the_function_that_it_is(tmp_path: Path) -> None:
    assert square(3, FakeContext(tmp_path)) == 9
    assert add([1, 2], start=3) == 6
    assert asyncio.run(split("a b")) == ["a", "b"]
    assert (square.__name__, square.__doc__) == ("square", "Square a number.")
    assert list(inspect.signature(square).parameters) == ["number", "ctx"]
    assert pickle.loads(pickle.dumps(square)) is square


def test_plain_typed_parameters_are_checked_by_a_model(tmp_path: Path) -> None:
    declared = {found.name: found for found in handlers_in(globals())}
    assert call_handler(declared["math.square"], FakeContext(tmp_path, params={"number": 3})) == 9
    assert call_handler(declared["math.add"], FakeContext(tmp_path, params={"numbers": [1, 2]})) == 3
    with pytest.raises(Exception, match=r"math.square refused its parameters: number: .*; more: Extra"):
        call_handler(declared["math.square"], FakeContext(tmp_path, params={"number": "x", "more": 1}))
    schema: Any = describe_handler(declared["text.split"]).parameters
    assert schema["properties"]["text"] == {"minLength": 1, "title": "Text", "type": "string"}
    assert schema["required"] == ["text"]
    assert call_handler(declared["math.scale"], FakeContext(tmp_path, params={"factor": 2})) == {"scaled": 2}


def test_what_is_listed_is_the_same_each_time() -> None:
    def plain(number: int) -> int:
        return number

    listed = {"ALL_HANDLERS": {"plain": plain, "again": square}}
    assert handlers_in(listed) == handlers_in(listed)


def test_the_parameters_of_a_handler_may_have_any_names(tmp_path: Path) -> None:
    @handler("odd")
    def odd(json: int, model_config: str, copy: bool, context: Context) -> list[Any]:
        return [json, model_config, copy, context.index]

    (declared,) = handlers_in({"odd": odd})
    given = FakeContext(tmp_path, params={"json": 1, "model_config": "x", "copy": True}, index=4)
    assert call_handler(declared, given) == [1, "x", True, 4]


# Inputs


def test_annotations_become_inputs() -> None:
    @workflow("typed", name="Typed", version=3)
    def typed(
        source: Annotated[str, Input(format="address")],
        n: Annotated[int, Field(ge=1, le=5, description="How many.")] = 3,
        ratio: float | None = None,
        names: list[str] = [],  # noqa: B006  # read once
        way: Literal["fast", "slow"] = "fast",
        more: dict[str, Any] | None = None,
        rest: Any = None,
        flag: bool = False,
    ) -> None:
        """Everything that an input can be.

        And more.
        """
        anything(source=source, ratio=ratio)

    flow = typed.workflow
    text = """
workflow_id: typed
name: Typed
version: 3
description: Everything that an input can be.
inputs:
  source: {type: string, format: address, required: true}
  n: {type: integer, min: 1, max: 5, description: How many., default: 3}
  ratio: {type: number}
  names: {type: array, default: []}
  way: {type: string, choices: [fast, slow], default: fast}
  more: {type: object}
  rest: {}
  flag: {type: boolean, default: false}
nodes:
  anything: {handler: any, params: {source: "{{ inputs.source }}", ratio: "{{ inputs.ratio? }}"}}
"""
    assert flow == load_yaml(text, "text").require()


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (Path, "is no type of an input"),
        (Annotated[int, Field(gt=3)], "an input can't have Gt"),
    ],
)
def test_an_annotation_that_no_input_has_is_refused(hint: Any, said: str) -> None:
    def untyped(n: int) -> None: ...

    untyped.__annotations__["n"] = hint
    with pytest.raises(DefinitionError, match=rf"{__file__}:\d+:1: the parameter 'n': .*{said}"):
        workflow(untyped)


def test_a_wrong_default_is_found_at_the_function() -> None:
    @workflow
    def wrong(n: Annotated[int, Input(maximum=3)] = 5) -> None:
        add(numbers=[n])

    assert refused(wrong) == ["0: the default must be at most 3, not 5. "]


# Calls and expressions


def test_calls_are_nodes_and_values_are_edges() -> None:
    @workflow
    def sums(a: int, b: int = 2) -> int:
        first = square(number=a)
        second = square(number=b, retry=Retry(3), timeout_seconds=5)
        return add(numbers=[first, second, 7], start=a)

    text = """
workflow_id: sums
inputs: {a: {type: integer, required: true}, b: {type: integer, default: 2}}
nodes:
  square: {handler: math.square, params: {number: "{{ inputs.a }}"}, next: add}
  square_2:
    handler: math.square
    params: {number: "{{ inputs.b }}"}
    retry: {max_attempts: 3}
    timeout_seconds: 5
    next: add
  add:
    handler: math.add
    params: {numbers: ["{{ nodes.square.output }}", "{{ nodes.square_2.output }}", 7], start: "{{ inputs.a }}"}
output: {result: "{{ nodes.add.output }}"}
"""
    assert sums.workflow.hash == load_yaml(text, "text").require().hash


def test_what_is_done_with_values_becomes_expressions() -> None:
    @workflow
    def expressions(n: int, name: str, tags: list[str], crs: str | None = None) -> dict[str, Any]:
        found = anything(a=1)
        return {
            "part": found["files"][0]["odd key"].name,
            "compared": (n > 3) & ~(name == "it's") | expr.is_in("dem", tags),
            "text": f"{name}: {found['size']} of {{{{ n }}}}",
            "literal": "{{ inputs.n }}",
            "inner": expr.upper(f"{name}-{n}"),
            "default": expr.default(crs, "EPSG:4326"),
            "optional": [crs, expr.optional(found["why"])],
            "functions": [expr.length(tags), expr.join(tags, "+"), expr.basename(name), expr.lower(name)],
            "tests": [expr.contains(name, "x"), expr.starts_with(name, "x"), expr.is_null(crs), n >= 5],
            "sums": [n + 1 - 2 * n, 7 // (n % 3), -n, (n - 1) * 2],
            "made": [expr.range(n), expr.min(n, 3), expr.at(expr.split(expr.stem(name), "_"), 0)],
            "job": expr.job_id,
        }

    assert expressions.workflow.output == {
        "part": '{{ nodes.anything.output.files[0]["odd key"].name }}',
        "compared": "{{ inputs.n > 3 and not inputs.name == 'it\\'s' or 'dem' in inputs.tags }}",
        "text": "{{ inputs.name }}: {{ nodes.anything.output.size }} of {{ '{{' }} n }}",
        "literal": "{{ '{{' }} inputs.n }}",
        "inner": "{{ upper(format('{0}-{1}', inputs.name, inputs.n)) }}",
        "default": "{{ default(inputs.crs, 'EPSG:4326') }}",
        "optional": ["{{ inputs.crs? }}", "{{ nodes.anything.output.why? }}"],
        "sums": [
            "{{ inputs.n + 1 - 2 * inputs.n }}",
            "{{ 7 // (inputs.n % 3) }}",
            "{{ 0 - inputs.n }}",
            "{{ (inputs.n - 1) * 2 }}",
        ],
        "made": ["{{ range(inputs.n) }}", "{{ min(inputs.n, 3) }}", "{{ at(split(stem(inputs.name), '_'), 0) }}"],
        "functions": [
            "{{ length(inputs.tags) }}",
            "{{ join(inputs.tags, '+') }}",
            "{{ basename(inputs.name) }}",
            "{{ lower(inputs.name) }}",
        ],
        "tests": [
            "{{ inputs.name contains 'x' }}",
            "{{ inputs.name starts_with 'x' }}",
            "{{ inputs.crs? is_null }}",
            "{{ inputs.n >= 5 }}",
        ],
        "job": "{{ job.id }}",
    }


@pytest.mark.parametrize(
    "text",
    [
        "not (a == 1 or not b) and c",
        "(inputs.a == 1) == (inputs.b == 2)",
        "default(inputs.a, [1, 'x\\\\y\\n', null, true, -1.5])",
        "format('{0} of {1}{0}', inputs.a, '{')",
        "(inputs.a or inputs.b) and not (inputs.c and inputs.d) or inputs.e is_null",
    ],
)
def test_an_expression_is_spelled_so_that_it_is_read_the_same(text: str) -> None:
    text = text.replace("a ==", "inputs.a ==").replace("not b", "not inputs.b").replace("and c", "and inputs.c")
    text = text.replace("inputs.inputs", "inputs").replace("inputs.cinputs", "inputs.c")
    assert parse(spell(parse(text))) == parse(text)


def test_a_map_is_a_fan_out_with_its_fan_in() -> None:
    @workflow
    def many(n: int) -> dict[str, Any]:
        found = anything(n=n)
        squares = square.map(found["numbers"], retry=Retry(2), concurrency=4, tolerate="5 %")
        scaled = scale.map(squares.items, factor=2, name=f"{item}!").fold("first")
        each = anything.options(name="each").map([1, 2], a=item.x, b=expr.index)
        return {"count": squares.count, "scaled": scaled.first, "each": each.items}

    found = nodes(many)
    assert list(found) == ["anything", "square", "all_square", "scale", "all_scale", "each", "all_each"]
    fan_out = found["square"]
    assert isinstance(fan_out, FanOutNode)
    assert (fan_out.source, fan_out.max_running, fan_out.tolerate.percent) == (
        "{{ nodes.anything.output.numbers }}", 4, 5,
    )  # fmt: skip
    assert fan_out.task.params == {"number": "{{ item }}"}
    assert fan_out.task.retry == Retry(2)
    assert found["all_square"].after == ("square",)
    assert found["scale"].work is not None
    assert found["scale"].work.params == {"factor": 2, "name": "{{ item }}!"}
    assert isinstance(found["all_scale"], FanInNode)
    assert many.workflow.output == {
        "count": "{{ nodes.all_square.output.count }}",
        "scaled": "{{ nodes.all_scale.output.first }}",
        "each": "{{ nodes.all_each.output.items }}",
    }


def test_the_fan_in_of_a_map_is_made_where_it_is_used() -> None:
    @workflow
    def plain() -> dict[str, Any]:
        square.map([1, 2], name="unused")
        raw = square.map([1], name="raw", aggregation=None)
        summed = square.map([3], name="summed", aggregation="sum")
        twice = square.map([4], name="twice")
        return {"raw": raw.count, "summed": summed.sum, "first": twice.fold("first").first, "all": twice.items}

    assert list(nodes(plain)) == ["unused", "raw", "summed", "twice", "all_summed", "all_twice", "all_twice_2"]


def test_a_fan_in_of_several_nodes_keeps_their_order_and_all_of_them() -> None:
    @workflow
    def several() -> Any:
        one = square(number=1)
        many = square.map([1, 2], name="many", after=one)
        return fan_in(many, one, aggregation="sum", name="total").sum

    found = nodes(several)
    assert isinstance(found["total"], FanInNode)
    assert (found["total"].sources, found["total"].after) == (("many", "square"), ("square", "many"))
    assert load_yaml(write_yaml(several.workflow, {}), "text").require().hash == several.workflow.hash


def test_gates_waits_ends_and_workflows_are_calls() -> None:
    @workflow
    def inner(n: int) -> Any:
        return square(number=n)

    @workflow
    def whole(n: int) -> dict[str, Any]:
        return {"n": square(number=n)}

    @workflow
    def outer() -> None:
        fields = {"seconds": int, "why": str | None, "how": Input(choices=("a", "b"))}
        answer = gate("review", timeout_seconds=60, answer=fields, description="Ask.", on_failure="continue")
        pause = wait(seconds=answer.seconds)
        ran = inner(n=3, after=pause, retry=Retry(2))
        other = whole(n=ran)
        last = workflow_named("some.workflow")(n=other["n"], k=[ran])
        task("raster.validate").options(name="check", queue="files")(source=last.source)
        anything.options(name="last")(items=inner.map([1, 2], name="jobs", concurrency=1).items)

    found = nodes(outer)
    assert list(found) == ["review", "wait", "inner", "whole", "some_workflow", "check", "jobs", "all_jobs", "last"]
    assert isinstance(found["all_jobs"], FanInNode)
    assert found["all_jobs"].folding == (Folding("items", Fold.COLLECT, "result"),)
    review, child = found["review"], found["inner"]
    assert isinstance(review, GateNode)
    assert (review.description, str(review.on_failure)) == ("Ask.", "continue")
    assert review.answer == {
        "seconds": Input("integer", required=True), "why": Input("string"), "how": Input(choices=("a", "b")),
    }  # fmt: skip
    assert isinstance(child, WorkflowNode)
    assert (child.workflow, child.params, child.after) == ("inner", {"n": 3}, ("wait",))
    assert found["whole"].work is not None
    assert found["whole"].work.params == {"n": "{{ nodes.inner.output.result }}"}
    assert found["some_workflow"].work is not None
    assert found["some_workflow"].work.params == {
        "n": "{{ nodes.whole.output.n }}", "k": ["{{ nodes.inner.output.result }}"],
    }  # fmt: skip


def test_the_options_are_those_that_nodes_have() -> None:
    models = (TaskNode, WorkflowNode, FanOutNode, FanInNode, HandlerWork, WorkflowWork)
    keys = {key for model in models for key in declared_keys(model)}
    options = {key.rstrip("_") for key in (*Options.__annotations__, *NodeOptions.__annotations__)}
    assert options - {"name", "after", "after_any"} == keys - {
        "handler", "workflow", "params", "source", "task",
    }  # fmt: skip


def test_e15_a_function_can_ask_for_a_new_job_each_time() -> None:
    @workflow(rerun=True)
    def look() -> Any:
        return split(text="a b")

    assert look.workflow.rerun


# Choices


def test_the_example_of_a_review() -> None:
    @workflow
    def review_gate(n: int) -> Any:
        return gate("review").approved

    @workflow
    def ingest(prefix: str) -> Any:
        files = anything(prefix=prefix)
        squares = square.map(files.items, retry=Retry(3))
        checked = choose(squares.count > 100, review_gate(n=squares.count), squares)
        return scale(factor=checked.items)

    assert edges(ingest) == {
        "anything": ((), ()),
        "square": (("anything",), ()),
        "all_square": (("square",), ()),
        "choose": (("all_square",), ()),
        "review_gate": (("choose",), ()),
        "scale": (("choose", "review_gate"), ()),
    }
    work = nodes(ingest)["scale"].work
    assert work is not None
    assert work.params == {
        "factor": "{{ default(nodes.review_gate.output.result.items, nodes.all_square.output.items) }}"
    }
    text = write_yaml(ingest.workflow, {})
    assert "condition_field: '{{ nodes.all_square.output.count }}'" in text
    assert load_yaml(text, "text").require().hash == ingest.workflow.hash


def test_what_is_needed_elsewhere_is_no_part_of_a_branch() -> None:
    @workflow
    def shared(flag: bool) -> dict[str, Any]:
        both = anything(a=1)
        left = square(number=both["n"], name="left")
        right = square(number=both["n"], name="right")
        chosen = choose(flag, left, right)
        other = anything.options(name="other")(b=7)
        return {"x": add(numbers=[chosen, other["n"]]), "both": both}

    assert edges(shared) == {
        "anything": ((), ()),
        "choose": (("anything",), ()),
        "left": (("choose",), ()),
        "right": (("choose",), ()),
        "other": ((), ()),
        "add": (("other",), ("left", "right")),
    }


def test_all_that_only_a_branch_needs_is_in_it() -> None:
    @workflow
    def chains(flag: bool) -> dict[str, Any]:
        first = anything.options(name="first")()
        second = square(number=first["n"], name="second")
        outside = anything.options(name="outside")()
        third = add(numbers=[second, outside["n"]], name="third")
        choose(flag, third, None, name="choice")
        return {"third": expr.optional(third), "n": outside["n"]}

    assert edges(chains) == {
        "outside": ((), ()),
        "choice": (("outside",), ()),
        "first": (("choice",), ()),
        "second": (("first",), ()),
        "third": (("second",), ()),
        "choice_end": (("choice",), ()),
    }


def test_a_choice_in_a_branch_waits_for_the_branch_and_not_only_for_its_values() -> None:
    @workflow
    def passed(flag: bool, other: bool) -> dict[str, Any]:
        outside = anything.options(name="outside")()
        inner = choose(flag, square(number=1, name="one"), outside, name="inner")
        choose(other, add(numbers=[inner], name="last"), None, name="outer")
        return {"outside": outside}

    assert edges(passed) == {
        "outside": ((), ()),
        "outer": (("outside",), ()),
        "inner": (("outer",), ()),
        "one": (("inner",), ()),
        "last": (("inner", "one"), ()),
        "outer_end": (("outer",), ()),
    }


def test_nested_choices_and_lambdas() -> None:
    @workflow
    def nested(n: int) -> Any:
        def large() -> Any:
            anything.options(name="notify")(text="large")
            return square(number=n, name="large")

        inner = choose(n > 7, square(number=7, name="seven"), None, name="inner")
        chosen = choose(n > 10, large, n > 5, inner, square(number=0, name="other"))
        return add(numbers=[chosen])

    assert edges(nested) == {
        "choose": ((), ()),
        "notify": (("choose",), ()),
        "large": (("choose",), ()),
        "inner": (("choose",), ()),
        "seven": (("inner",), ()),
        "other": (("choose",), ()),
        "add": (("inner", "seven", "other", "large"), ()),
    }


def test_what_an_expression_can_not_choose_is_refused() -> None:
    @workflow
    def select(flag: bool, a: int, b: int) -> Any:
        return add(
            numbers=[choose(flag, a, b)],
        )

    assert refused(select) == [
        "3: two of these values are there whatever is chosen, and an expression can't say which is meant. Choose between calls that nothing else needs, or in a handler."  # noqa: E501  # a whole message
    ]


def test_a_node_of_a_lambda_can_not_be_used_outside() -> None:
    @workflow
    def leaking(flag: bool) -> Any:
        kept = []
        choose(flag, lambda: kept.append(square(number=1)), None)
        return add(numbers=[kept[0]])

    @workflow
    def returned(flag: bool) -> Any:
        kept: list[Any] = []
        choose(flag, lambda: kept.append(square(number=1)), None)
        return kept[0]

    assert refused(returned)[0].startswith("3: square is made inside a lambda")
    assert refused(leaking) == [
        "4: square is made inside a lambda of choose, and used outside it. Use what choose returns, or expr.optional(…)."  # noqa: E501  # a whole message
    ]


def test_a_function_may_make_many_nodes() -> None:
    @workflow
    def long(n: int) -> Any:
        for _ in range(1200):
            n = square(number=n)
        chosen = [choose(n > number, square(number=n), None) for number in range(20)]
        return add(numbers=[square(number=number) for number in range(100)], start=chosen[7])

    assert len(long.workflow.nodes) == 1200 + 20 * 3 - 1 + 100 + 1  # one choice needs no end


# Mistakes


def test_all_mistakes_of_calls_are_found_at_once_with_their_lines() -> None:
    @workflow
    def wrong(n: int) -> None:
        square(nubmer=n)
        square()
        square(number="three")
        scale(factor=n, retry=Retry(0))
        task("no.such").options(name="2x")()
        anything.options(when=n)(a=1)

    assert refused(wrong) == [
        "2: math.square takes no parameter 'nubmer'. Did you mean 'number'?",
        "3: math.square needs the parameter 'number'. Add it to params.",
        "4: the parameter 'number' of math.square: it should be a valid integer, unable to parse string as an integer. ",  # noqa: E501  # a whole message
        "5: max_attempts is a whole number from 1 to 1,000, not 0. ",
        "6: '2x' can't be a node's name. Begin with a letter or _, go on with letters, digits and _; at most 63.",
        "7: a condition must be a boolean, not an integer. ",
    ]


@pytest.mark.parametrize("word", ["after", "after_any"])
def test_g4_nodes_of_two_branches_that_come_after_each_other_are_refused(word: str) -> None:
    @workflow
    def crossed(n: int, flag: bool = False) -> Any:
        first = square(number=n, name="first")
        second = square(number=2, name="second", **{word: [first]})
        return choose(flag, first, second)

    assert refused(crossed) == [
        "4: these nodes wait for each other: choose → first → choose. Remove one of these steps."
    ]


def test_what_ends_the_trace_is_reported_after_the_mistakes_before_it() -> None:
    @workflow
    def ends(n: int) -> None:
        square(nubmer=n)
        if n > 3:
            square(n=n)

    assert [said[:30] for said in refused(ends)] == ["2: math.square takes no parame", "3: this value is known only wh"]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda n: add(numbers=[1]) if n > 3 else None, "Python can't decide by it. Write choose"),
        (lambda n: [square(number=one) for one in n], "loop over it. Write handler.map(items)"),
        (lambda n: (n > 1) and (n < 3), "& | ~ in place of and, or, not"),
        (lambda n: [len(n)], "expr.length(x)"),
        (lambda n: "a" in n, "expr.contains(whole, part)"),
        (lambda n: [int(n)], "Convert it in a handler"),
        (lambda n: n / 2, "expressions have + - * // and % only. Compute it in a handler; join text by an f-string"),
        (lambda n: f"{n:.2f}", "a value can't be formatted by '.2f'. Format it in a handler"),
        (lambda n: n.upper(), "a value of a job has no methods. Use the functions of expr"),
        (lambda n: n[1:2], "a part is named by text or a whole number"),
        (lambda n: (n > 3).x, "only inputs, items and results have parts"),
        (lambda n: n == {"a": 1}, "a dict can't be part of an expression"),
        (lambda n: square(number=object()), "a object can't be stored in a workflow"),
        (lambda n: choose(True, n, n), "a condition of choose is a value of the job"),
        (lambda n: anything(a=1, retry=Retry(2)), "retry may be one, or an option of the node. Write anything.options"),
        (lambda n: square(number=1, batch_size=2), "this node has no option 'batch_size'"),
        (lambda n: [cast("Any", scale)(n)], "scale takes its parameters by keyword. It takes factor, name"),
        (lambda n: fan_in(n + 1), "fan_in collects what calls return, and this is something else"),
        (lambda n: fan_in(cast("Any", anything(n=n)).x), "and this is something else. Pass the call's value."),
        (lambda n: anything.map([1]), "which parameter is the item? Name it: anything.map(items, parameter=item)"),
        (lambda n: anything({f"{n}": 1}), "anything takes its parameters by keyword"),
        (lambda n: anything(a={f"{n}": 1}), "a key of an object is a text that is known"),
        (lambda n: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_trace_can_not_do_is_refused_where_it_is_written(act: Any, said: str) -> None:
    function = workflow("refused")(act)
    mistake = function.load().mistakes[-1]
    assert mistake.file == __file__
    assert mistake.line == act.__code__.co_firstlineno
    assert said in str(mistake)


PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "python-workflows.md").read_text()
INSTEAD = [re.findall("`(.*?)`", row.split(" | ")[0]) for row in re.findall(r"^\| `.*", PAGE, re.MULTILINE)]


@pytest.mark.parametrize("written", [one for row in INSTEAD for one in row] + ["x + 1", "x // 2", "x > 3"])
def test_the_page_says_what_a_trace_refuses(written: str) -> None:
    names: dict[str, Any] = {"anything": anything}  # what the snippets use
    exec(f"def act(x, y, a, b, items):\n    anything(n=x)\n    {written.replace('…', 'pass')}", names)
    assert bool(workflow("act")(names["act"]).load().mistakes) == (written not in ("x + 1", "x // 2", "x > 3"))


def test_a_value_of_another_function_is_refused() -> None:
    leaked: list[Any] = []

    @workflow
    def first(n: int) -> None:
        leaked.extend([n, square(number=n), f"{n}"])

    assert first.workflow.names == ["square"]
    for value in leaked:

        @workflow
        def used() -> None:
            anything(a=[value])  # noqa: B023  # traced in this turn

        @workflow
        def returned() -> Any:
            anything(a=1)
            return value  # noqa: B023  # as above

        for function, line in ((used, 2), (returned, 0)):
            (said,) = refused(function)
            assert said.startswith(f"{line}: this ")
            assert "of another workflow function" in said


def test_outside_of_a_workflow_only_handlers_can_be_called() -> None:
    @workflow
    def flow(n: int) -> None:
        square(number=n)

    for act in (lambda: flow(n=1), lambda: square.map([1]), lambda: gate("x"), lambda: choose(1, 2), task("x")):
        with pytest.raises(DefinitionError, match="can be called only inside a function with @workflow"):
            act()
    with pytest.raises(DefinitionError, match="a plain function"):

        @workflow
        async def waits() -> None: ...


def test_a_workflow_function_that_calls_itself_is_refused_as_a_ring() -> None:
    @workflow
    def around(n: int) -> Any:
        return around(n=n)

    registry = Registry()
    registry.add(module(square=square, around=around))
    registry.resolve()
    (reason,) = registry.refused.values()
    assert "a workflow can't run itself" in reason
    assert f"{__file__}:{around._place.line + 2}:" in reason


# Plugins


def module(**members: object) -> Any:
    made = type(inspect)("made")
    vars(made).update(members)
    return made


PLUGIN = '''
from anabranch import handler, task, workflow, item
from anabranch.plugins.demo.handlers import echo

@workflow
def doubled(n: int):
    """Double a number."""
    return double(n)

@handler("my.double")
def double(number: int) -> int:
    return 2 * number

@workflow
def misspelt(n: int):
    double(numer=n)
    double.map([1], what=item)
    task("my.duoble")(number=1)

def plain(n: int = 1):
    echo.options(name="say")(n=n)

ALL_JOBS = {"plain": workflow("my.plain")(plain)}
'''


def test_g5_functions_of_a_plugin_are_registered_and_a_wrong_one_is_refused_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    registry = load_plugins([str(tmp_path)])
    flow = registry.declaration("doubled").workflow
    assert (flow.description, flow.names, flow.output) == (
        "Double a number.", ["double"], {"result": "{{ nodes.double.output }}"},
    )  # fmt: skip
    assert registry.declaration("my.plain").workflow.names == ["say"]
    assert registry.declaration("doubled").check({"n": 3}) == {"n": 3}
    assert registry.refused == {
        f"{tmp_path}/mine.py:misspelt": "\n".join(
            f"{tmp_path}/mine.py:{line}:5: {said}"
            for line, said in (
                (16, "my.double takes no parameter 'numer'. Did you mean 'number'?"),
                (17, "my.double takes no parameter 'what'. It takes number."),
                (17, "my.double needs the parameter 'number'. Add it to params."),
                (18, "no plugin brings the handler 'my.duoble'. Did you mean 'my.double'?"),
            )
        )
    }
    assert set(registry.reread().declarations) == set(registry.declarations)


def test_every_workflow_can_be_shown_as_yaml_and_has_the_same_hash_when_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    registry = load_plugins([str(tmp_path)])
    shown = tmp_path / "shown"
    shown.mkdir()
    for name, declared in registry.declarations.items():
        if name != "hello_world":
            (shown / f"{name}.yaml").write_text(write_yaml(declared.workflow, registry.handlers))
    again = load_plugins([str(tmp_path), str(shown)])
    assert again.declaration("my.plain").origin.endswith("my.plain.yaml")
    hashes = {name: declared.workflow.hash for name, declared in registry.declarations.items()}
    assert {name: declared.workflow.hash for name, declared in again.declarations.items()} == hashes
    with pytest.raises(Exception, match="class with stages"):
        write_yaml(registry.declaration("hello_world").workflow, {})


def test_an_end_may_have_the_result() -> None:
    @workflow
    def ends(flag: bool) -> None:
        good = square(number=1)
        choose(flag, end("good", output={"n": good}), lambda: end("bad", output={"n": None}))

    assert edges(ends) == {
        "choose": ((), ()),
        "square": (("choose",), ()),
        "good": (("square",), ()),
        "bad": (("choose",), ()),
    }
