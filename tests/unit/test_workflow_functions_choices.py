"""Random functions with choices give what the same Python would, and run no node that only another branch needs."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from anabranch import choose, handler, workflow
from anabranch.canonical import Json
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import Missing, Reference, Template, evaluate, read_template, references, walk
from anabranch.workflows.nodes import ConditionalNode, Node, TaskNode

MOST_STEPS = 9
FLAGS = ("a", "b", "c")
Draw = Callable[[st.SearchStrategy[Any]], Any]


@handler("pack")
def pack(step: int, parts: list[Any]) -> dict[str, Any]:
    return {"value": [step, *parts]}


class Program:
    """Steps of a function: calls that take values of earlier steps, and choices between them by the inputs."""

    def __init__(self, draw: Draw) -> None:
        self.steps: list[tuple[str, Any]] = []
        for number in range(draw(st.integers(2, MOST_STEPS))):
            value = st.none() | st.integers(0, number - 1) if number else st.none()
            if number and draw(st.booleans()):
                flags = draw(st.lists(st.sampled_from(FLAGS), min_size=1, max_size=2, unique=True))
                self.steps.append(("choose", (flags, [draw(value) for _ in range(len(flags) + 1)])))
            else:
                self.steps.append(("pack", [one for one in draw(st.lists(value, max_size=2)) if one is not None]))
        last = st.integers(0, len(self.steps) - 1)
        self.returned: list[int] = draw(st.lists(last, min_size=1, max_size=2, unique=True))

    def trace(self, **flags: Any) -> dict[str, Any]:
        values: list[Any] = []
        for number, (kind, what) in enumerate(self.steps):
            if kind == "pack":
                values.append(pack(step=number, parts=[values[one] for one in what]))
            else:
                chosen = [None if one is None else values[one] for one in what[1]]
                pairs = [part for flag, value in zip(what[0], chosen, strict=False) for part in (flags[flag], value)]
                values.append(choose(*pairs, chosen[-1]))
        return {str(one): values[one] for one in self.returned}

    def expect(self, flags: dict[str, bool]) -> tuple[dict[str, Json], set[int]]:
        """What is returned, and the calls that it takes."""
        called: set[int] = set()

        def value(number: int | None) -> Json:
            if number is None:
                return None
            kind, what = self.steps[number]
            if kind == "pack":
                called.add(number)
                return {"value": [number, *map(value, what)]}
            taken = next((n for n, flag in enumerate(what[0]) if flags[flag]), len(what[0]))
            return value(what[1][taken])

        return {str(one): value(one) for one in self.returned}, called

    def find_skipped(self, flags: dict[str, bool]) -> set[int]:
        """Calls that are only values of branches that are not taken."""
        users: dict[int, list[tuple[int, int]]] = {one: [(-1, 0)] for one in self.returned}
        for number, (kind, what) in enumerate(self.steps):
            for branch, one in enumerate(what if kind == "pack" else what[1]):
                if one is not None:
                    users.setdefault(one, []).append((number if kind == "choose" else -1, branch))
        found = set()
        for number, ((choice, branch), *more) in users.items():
            if not more and choice >= 0 and self.steps[number][0] == "pack":
                flagged = self.steps[choice][1][0]
                taken = next((n for n, flag in enumerate(flagged) if flags[flag]), len(flagged))
                found |= {number} if taken != branch else set()
        return found


def run(flow: Workflow, inputs: dict[str, bool]) -> tuple[dict[str, Json], set[int]]:
    """The outputs of a job, by the rules for joins and skips of the reference, and the calls that were made."""
    outputs: dict[str, Json] = {}
    taken: dict[str, tuple[str, ...]] = {}
    called: set[int] = set()

    def resolve(reference: Reference) -> Json:
        if reference.root == "inputs":
            return inputs[str(reference.path[0])]
        name, _, *rest = reference.path
        if name not in outputs:
            raise Missing(reference)
        return walk(outputs[str(name)], rest, reference)

    def fill(template: Template | None) -> Any:
        assert template is not None
        for reference in references(template):  # the engine looks them up before anything is evaluated
            assert reference.optional or reference.root == "inputs" or reference.path[0] in outputs, reference
        return evaluate(template, resolve)

    def is_reached(node: Node) -> bool:
        live = {name for name in node.parents if name in outputs and node.name in taken.get(name, (node.name,))}
        return all(not live.isdisjoint(names) for names in (node.after, node.after_any) if names)

    for node in filter(is_reached, flow.nodes):
        if isinstance(node, ConditionalNode):
            subject = None if node.subject_template is None else evaluate(node.subject_template, resolve)
            branches = (one for one in node.branches if one.is_default or evaluate(one.test, resolve, subject))
            taken[node.name] = next(branches).next
            outputs[node.name] = None
        elif isinstance(node, TaskNode):
            params = fill(node.template)
            outputs[node.name] = {"value": [params["step"], *params["parts"]]}
            called.add(params["step"])
    return fill(read_template(flow.output)), called


@pytest.mark.parametrize("examples", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_choice_gives_what_python_would(examples: int) -> None:
    lenient = [HealthCheck.filter_too_much, HealthCheck.too_slow]
    settings(max_examples=examples, suppress_health_check=lenient)(given(st.data())(check_choice))()


def check_choice(data: st.DataObject) -> None:
    program = Program(data.draw)

    @workflow("random")
    def traced(a: bool, b: bool, c: bool) -> Any:
        return program.trace(a=a, b=b, c=c)

    loaded = traced.load()
    assume(not any("there whatever is chosen" in mistake.message for mistake in loaded.mistakes))
    assert [str(mistake) for mistake in loaded.mistakes] == []
    assert loaded.workflow is not None
    flags = {flag: data.draw(st.booleans()) for flag in FLAGS}
    expected, needed = program.expect(flags)
    returned, called = run(loaded.workflow, flags)
    assert returned == expected
    assert called >= needed
    assert called.isdisjoint(program.find_skipped(flags))
