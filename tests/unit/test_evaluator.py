from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from anabranch.canonical import Json
from anabranch.engine.advancing import evaluator
from anabranch.engine.advancing.lanes import KeepLane, OpenLane
from anabranch.engine.advancing.transitions import (
    ABSENT,
    Absent,
    Event,
    Facts,
    LaneEnded,
    Needs,
    OpenWait,
    SetJob,
    SetNode,
    Signalled,
    Started,
    TimeUp,
    Transition,
)
from anabranch.engine.failure import Failure
from anabranch.engine.model import JobState, NodeState, Purpose
from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Branch
from anabranch.workflows.expressions import Missing, Reference, walk
from anabranch.workflows.nodes import AnyNode, Kind, OnFailure, Spread, Tolerance
from anabranch.workflows.yaml.load import load_yaml
from tests.support.nodes import make_node

ERROR = Failure(code="handler.permanent", message="no")


def workflow(*nodes: AnyNode) -> Workflow:
    return Workflow("w", nodes)


def two_stages(**more: object) -> Workflow:
    first = make_node("first", "f", spread=Spread.FIXED, count=3, **more)  # type: ignore[arg-type]  # fields of Node
    return workflow(first, make_node("second", "s", after=("first",)))


def states(**known: str) -> dict[str, NodeState]:
    return {name: NodeState(state) for name, state in known.items()}


def state_of(known: Mapping[str, NodeState]) -> JobState:
    return JobState.PENDING if set(known.values()) == {NodeState.PENDING} else JobState.RUNNING


def plan(
    workflow: Workflow, parameters: dict[str, Json], known: dict[str, NodeState], event: Started | LaneEnded
) -> tuple[Transition, ...]:
    planned = evaluator.plan(workflow, Facts("job", parameters, known, state=state_of(known)), event)
    assert not isinstance(planned, Needs)
    return planned


def opened(transitions: tuple[Transition, ...]) -> list[tuple[str, Purpose]]:
    return [(t.node, t.purpose) for t in transitions if isinstance(t, OpenLane)]


class Story:
    """A job, told event by event; what its nodes put out is kept as a store keeps it, once a step is done."""

    def __init__(self, workflow: Workflow, **inputs: Json) -> None:
        self.workflow = workflow
        self.inputs = inputs
        self.states = dict.fromkeys(workflow.names, NodeState.PENDING)
        self.taken: dict[str, int] = {}
        self.failure: Failure | None = None
        self.outputs: dict[str, Json] = {}
        self.lanes: dict[str, OpenLane] = {}
        self.waits: dict[str, OpenWait] = {}
        self.moves: dict[str, SetNode] = {}
        self.job = SetJob(JobState.PENDING)
        self.tell(Started())

    def end(self, node: str, result: Json = None, failed: int = 0, width: int = 1) -> "Story":
        """The node's lane ends; many tasks may have been in it, and some may have failed."""
        self.outputs[node] = {"error": ERROR.to_json()} if failed else result
        return self.tell(LaneEnded(node, self.lanes[node].purpose, failed, ERROR if failed else None, width))

    def tell(self, event: Event) -> "Story":
        for change in self._plan(event):
            if isinstance(change, OpenLane):
                self.lanes[change.node] = change
            elif isinstance(change, OpenWait):
                self.waits[change.node] = change
            elif isinstance(change, SetNode):
                self._move(change)
            elif isinstance(change, SetJob):
                self.job = change
        return self

    def _plan(self, event: Event) -> tuple[Transition, ...]:
        facts = Facts("job", self.inputs, self.states, self.taken, self.failure, state=self.job.state)
        values: dict[tuple[str | int, ...], Json | Absent] = {}
        while isinstance(planned := evaluator.plan(self.workflow, facts, event, values), Needs):
            values |= {reference.path: self._look_up(reference) for reference in planned.references}
        return planned

    def _look_up(self, reference: Reference) -> Json | Absent:
        name = str(reference.path[0])
        try:
            return walk(self.outputs[name], reference.path[2:], reference) if name in self.outputs else ABSENT
        except Missing:
            return ABSENT

    def _move(self, change: SetNode) -> None:
        self.moves[change.node] = change
        self.states[change.node] = change.state
        if change.output is not None:
            self.outputs[change.node] = change.output
        if change.output is not None and isinstance(branch := change.output.get("branch"), int):
            self.taken[change.node] = branch
        if change.state is NodeState.FAILED:
            self.failure = self.failure or change.error

    def of(self, state: str) -> list[str]:
        """The nodes in a state."""
        return [name for name, found in self.states.items() if found is NodeState(state)]

    def error_of(self, node: str) -> str:
        """What a node failed of."""
        error = self.moves[node].error
        assert error is not None
        return str(error.message)


def task(name: str, *after: str, **more: object) -> AnyNode:
    return make_node(name, "h", after, **more)  # type: ignore[arg-type]  # fields of Node


def choice(name: str, *branches: tuple[str, str], after: tuple[str, ...] = ()) -> AnyNode:
    """A conditional on `inputs.x`: conditions and the node that each leads to; the last is the default."""
    ways = [
        Branch((to,), None if condition == "else" else condition, is_default=condition == "else")
        for condition, to in branches
    ]
    return make_node(name, kind=Kind.CONDITIONAL, after=after, subject="{{ inputs.x }}", branches=tuple(ways))


def fan_out(name: str, *after: str, **more: object) -> AnyNode:
    return task(name, *after, kind=Kind.FAN_OUT, **{"source": "{{ inputs.items }}", "params": {}, **more})


def test_a_start_opens_the_nodes_that_wait_for_none() -> None:
    diamond = workflow(make_node("a", "h"), make_node("b", "h"), make_node("c", "h", after=("a", "b")))
    result = plan(diamond, {}, states(a="pending", b="pending", c="pending"), Started())
    assert result[0] == SetJob(JobState.RUNNING)
    assert opened(result) == [("a", Purpose.WORK), ("b", Purpose.WORK)]


def test_a_join_waits_for_all_it_comes_after() -> None:
    diamond = workflow(make_node("a", "h"), make_node("b", "h"), make_node("c", "h", after=("a", "b")))
    half = plan(diamond, {}, states(a="running", b="running", c="pending"), LaneEnded("a", Purpose.WORK, 0))
    assert half == (SetNode("a", NodeState.COMPLETED),)
    whole = plan(diamond, {}, states(a="completed", b="running", c="pending"), LaneEnded("b", Purpose.WORK, 0))
    assert opened(whole) == [("c", Purpose.WORK)]


def test_a_planned_node_is_planned_before_it_works() -> None:
    planned = workflow(make_node("a", "h", spread=Spread.DYNAMIC, planned=True))
    assert opened(plan(planned, {}, states(a="pending"), Started())) == [("a", Purpose.PLAN)]
    (lane,) = plan(planned, {}, states(a="running"), LaneEnded("a", Purpose.PLAN, 0))
    assert isinstance(lane, OpenLane)
    assert (lane.purpose, lane.source.kind, lane.source.purpose) == (Purpose.WORK, "plan", Purpose.PLAN)


def test_an_aggregated_node_is_aggregated_before_it_completes() -> None:
    aggregated = workflow(make_node("a", "h", aggregated=True))
    assert opened(plan(aggregated, {}, states(a="running"), LaneEnded("a", Purpose.WORK, 0))) == [
        ("a", Purpose.AGGREGATE)
    ]
    done = plan(aggregated, {}, states(a="running"), LaneEnded("a", Purpose.AGGREGATE, 0))
    assert done[-1] == SetJob(JobState.COMPLETED, results_of=("a",))


def test_a_fan_in_is_the_engines_and_has_no_planner() -> None:
    joined = workflow(make_node("a", "h", planned=True), make_node("b", "h", ("a",), Spread.FAN_IN, planned=True))
    lane = plan(joined, {}, states(a="running", b="pending"), LaneEnded("a", Purpose.WORK, 0))[-1]
    assert isinstance(lane, OpenLane)
    assert (lane.purpose, lane.source.count, lane.shape.previous) == (Purpose.WORK, 1, "a")


def test_e1_a_failed_node_ends_the_job_and_every_node_behind_it() -> None:
    result = plan(
        two_stages(), {}, states(first="running", second="pending"), LaneEnded("first", Purpose.WORK, 1, ERROR)
    )
    error = replace(ERROR, node="first")
    assert result == (
        SetNode("first", NodeState.FAILED, error),
        SetNode("second", NodeState.SKIPPED),
        SetJob(JobState.FAILED, error),
    )


def test_on_failure_continue_counts_the_node_as_done() -> None:
    tolerant = two_stages(on_failure=OnFailure.CONTINUE)
    result = plan(tolerant, {}, states(first="running", second="pending"), LaneEnded("first", Purpose.WORK, 2, ERROR))
    assert SetNode("first", NodeState.COMPLETED) in result
    assert opened(result) == [("second", Purpose.WORK)]


def test_on_failure_finish_lets_siblings_end_first() -> None:
    patient = two_stages(on_failure=OnFailure.FINISH)
    lane = plan(patient, {}, states(first="pending", second="pending"), Started())[-1]
    assert isinstance(lane, OpenLane)
    assert lane.tolerated > 1_000_000
    ended = plan(patient, {}, states(first="running", second="pending"), LaneEnded("first", Purpose.WORK, 1, ERROR))
    assert isinstance(ended[-1], SetJob)
    assert ended[-1].state is JobState.FAILED


def test_e5_an_event_of_a_decided_node_changes_nothing() -> None:
    assert plan(two_stages(), {}, states(first="failed", second="skipped"), LaneEnded("first", Purpose.WORK, 0)) == ()
    assert plan(two_stages(), {}, states(first="running", second="pending"), Started()) == ()


def test_dynamic_width_comes_from_the_parameter() -> None:
    dynamic = workflow(make_node("a", "h", spread=Spread.DYNAMIC, count_param="n"))
    lane = plan(dynamic, {"n": 7}, states(a="pending"), Started())[-1]
    assert isinstance(lane, OpenLane)
    assert lane.source.count == 7


def test_g1_the_first_branch_that_matches_is_taken_and_no_other() -> None:
    fork = workflow(
        choice("fork", ("> 0", "a"), ("> 1", "b"), ("else", "c")), *(task(name, "fork") for name in ("a", "b", "c"))
    )
    both = Story(fork, x=5)
    assert (both.of("running"), both.of("skipped")) == (["a"], ["b", "c"])
    assert both.moves["fork"].output == {"branch": 0, "next": ["a"]}


def test_g1_the_default_branch_is_taken_when_none_matches() -> None:
    fork = workflow(choice("fork", ("> 0", "a"), ("else", "b")), task("a", "fork"), task("b", "fork"))
    assert Story(fork, x=0).of("running") == ["b"]


def test_g2_a_skip_follows_its_edges_to_the_end() -> None:
    fork = workflow(
        choice("fork", ("== 1", "a"), ("else", "b")),
        task("a", "fork"),
        task("b", "fork"),
        task("c", "a"),
        task("d", "c"),
    )
    assert Story(fork, x=2).of("skipped") == ["a", "c", "d"]


def test_g2_a_branch_that_leads_straight_to_a_join_does_not_skip_the_join() -> None:
    fork = workflow(choice("fork", ("== 1", "a"), ("else", "join")), task("a", "fork"), task("join", "fork", "a"))
    straight = Story(fork, x=2)
    assert (straight.of("skipped"), straight.of("running")) == (["a"], ["join"])
    around = Story(fork, x=1)
    assert around.of("pending") == ["join"]
    assert around.end("a").of("running") == ["join"]


def test_g2_a_join_whose_parents_are_all_skipped_is_skipped() -> None:
    fork = workflow(
        choice("fork", ("== 1", "a"), ("== 1", "b"), ("else", "c")),
        *(task(name, "fork") for name in ("a", "b", "c")),
        task("join", "a", "b"),
    )
    assert Story(fork, x=2).end("c").of("skipped") == ["a", "b", "join"]


def test_g2_a_join_waits_for_its_last_edge_also_when_another_is_dead() -> None:
    joined = workflow(task("a", when=False), task("b"), task("c"), task("join", "a", "b", "c"))
    story = Story(joined).end("b")
    assert story.of("pending") == ["join"]
    assert story.end("c").of("running") == ["join"]


def test_g3_an_any_join_runs_with_its_first_live_parent_and_once() -> None:
    joined = workflow(task("a"), task("b"), task("join", after_any=("a", "b")))
    story = Story(joined).end("b")
    assert story.of("running") == ["a", "join"]
    del story.lanes["join"]
    assert "join" not in story.end("a").lanes


def test_g3_a_skipped_sibling_does_not_fire_an_any_join() -> None:
    joined = workflow(task("a", when=False), task("b"), task("join", after_any=("a", "b")))
    story = Story(joined)
    assert (story.of("skipped"), story.of("pending")) == (["a"], ["join"])
    assert story.end("b").of("running") == ["join"]


def test_g3_an_any_join_whose_parents_are_all_skipped_is_skipped() -> None:
    joined = workflow(task("a", when=False), task("b", when=False), task("join", after_any=("a", "b")))
    story = Story(joined)
    assert story.of("skipped") == ["a", "b", "join"]
    assert story.job == SetJob(JobState.COMPLETED)


def test_a_node_with_both_rules_waits_for_both() -> None:
    joined = workflow(task("a"), task("b"), task("c"), task("join", "a", after_any=("b", "c")))
    assert Story(joined).end("c").of("pending") == ["join"]
    assert Story(joined).end("c").end("a").of("running") == ["b", "join"]


def test_g8_a_missing_reference_fails_the_node_and_names_what_is_missing() -> None:
    needy = workflow(task("a"), task("b", "a", params={"x": "{{ nodes.a.output.tiles }}"}))
    story = Story(needy).end("a", {"other": 1})
    assert story.of("failed") == ["b"]
    assert story.error_of("b") == "nodes.a.output.tiles is missing"
    assert story.job.error == story.moves["b"].error
    assert story.job.error is not None
    assert (story.job.error.node, story.job.error.code) == ("b", "expression.failed")


@pytest.mark.parametrize(
    "more",
    [
        {"when": "nodes.a.output.tiles == 1"},
        {"kind": Kind.FAN_OUT, "source": "{{ nodes.a.output.tiles }}"},
        {"kind": Kind.END, "output": {"x": "{{ nodes.a.output.tiles }}"}},
        {"kind": Kind.CONDITIONAL, "subject": "{{ nodes.a.output.tiles }}", "branches": (Branch((), is_default=True),)},
    ],
)
def test_g8_wherever_a_reference_stands_it_must_be_there(more: dict[str, object]) -> None:
    story = Story(workflow(task("a"), task("b", "a", **more))).end("a", {"other": 1})
    assert story.error_of("b") == "nodes.a.output.tiles is missing"
    assert story.job.state is JobState.FAILED


def test_g8_what_is_marked_optional_may_be_missing() -> None:
    params: Json = {"x": "{{ nodes.a.output.tiles? }}", "y": "{{ default(nodes.a.output.size, 1) }}"}
    story = Story(workflow(task("a"), task("b", "a", params=params))).end("a", {})
    assert story.of("running") == ["b"]
    assert story.lanes["b"].values == {}


def test_a_lane_carries_the_values_that_its_parameters_name_and_no_more() -> None:
    params: Json = {"x": "{{ nodes.a.output.path }}", "y": "{{ inputs.n }}"}
    story = Story(workflow(task("a"), task("b", "a", params=params)), n=1)
    story.end("a", {"path": "{{ inputs.n }}", "large": "..."})
    assert story.lanes["b"].values == {"nodes.a.output.path": "{{ inputs.n }}"}


def test_a_lane_carries_no_more_than_a_megabyte() -> None:
    story = Story(workflow(task("a"), task("b", "a", params={"x": "{{ nodes.a.output }}"}))).end("a", "x" * 1_000_000)
    assert story.of("failed") == ["b"]
    assert story.moves["b"].error is not None
    assert story.moves["b"].error.remedy == "Write large data to storage and hand over its address."


def test_what_is_needed_is_asked_for_by_path() -> None:
    needy = workflow(task("a"), task("b", "a", when="nodes.a.output.n > 1"))
    facts = Facts("job", {}, states(a="running", b="pending"), state=JobState.RUNNING)
    needs = evaluator.plan(needy, facts, LaneEnded("a", Purpose.WORK, 0))
    assert needs == Needs(frozenset({Reference("nodes", ("a", "output", "n"))}))
    known = evaluator.plan(needy, facts, LaneEnded("a", Purpose.WORK, 0), {("a", "output", "n"): 2})
    assert not isinstance(known, Needs)
    assert opened(known) == [("b", Purpose.WORK)]


@pytest.mark.parametrize("when", ["inputs.text > 1", "inputs.text", "length(inputs.n) == 1"])
def test_e10_an_expression_that_goes_wrong_fails_its_node_and_job(when: str) -> None:
    story = Story(workflow(task("a", when=when), task("b", "a")), text="two", n=1)
    assert (story.of("failed"), story.of("skipped")) == (["a"], ["b"])
    assert story.job.state is JobState.FAILED


@pytest.mark.parametrize(
    ("items", "said"),
    [("text", "the source of f is not an array"), ([1, 2, 3], "the source of f has 3 items; at most 2 are allowed")],
)
def test_e10_a_source_that_can_not_be_spread_fails_its_node(items: Json, said: str) -> None:
    story = Story(workflow(fan_out("f", max_items=2)), items=items)
    assert story.error_of("f") == said
    assert story.job.state is JobState.FAILED


def test_e10_an_expression_that_fails_cancels_what_the_same_step_began() -> None:
    story = Story(workflow(task("a"), task("b", when="inputs.gone"), task("c")))
    assert (story.of("cancelled"), story.of("failed"), story.of("skipped")) == (["a"], ["b"], ["c"])


def test_e11_a_fan_out_of_no_items_completes_with_an_empty_list() -> None:
    spread = workflow(fan_out("f"), make_node("g", kind=Kind.FAN_IN, after=("f",)))
    story = Story(spread, items=[])
    assert story.lanes["f"].source.items == []
    story.end("f", {"items": [], "count": 0}, width=0)
    assert story.lanes["g"].shape.previous == "f"
    assert story.end("g", {"items": [], "count": 0}).job == SetJob(JobState.COMPLETED, results_of=("g",))


def test_a_fan_in_collects_several_nodes_and_names_those_that_were_skipped() -> None:
    spread = workflow(
        task("a"),
        fan_out("f", "a"),
        task("b", "a", when="inputs.gone"),
        make_node("g", kind=Kind.FAN_IN, after=("a", "f", "b"), sources=("f", "b", "a")),
    )
    story = Story(spread, items=[1, 2], gone=False).end("a").end("f", width=2)
    assert (story.lanes["g"].shape.collected, story.lanes["g"].shape.skipped) == (("f", "a"), ("b",))


def test_a_fan_out_has_a_task_for_each_item_or_batch() -> None:
    assert Story(workflow(fan_out("f")), items=[1, 2, 3]).lanes["f"].source.items == [1, 2, 3]
    assert Story(workflow(fan_out("f", batch_size=2)), items=[1, 2, 3]).lanes["f"].source.items == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("tolerance", "width", "allowed"),
    [
        (Tolerance(2), 10, 2),
        (Tolerance(percent=25), 10, 2),
        (Tolerance(percent=30), 10, 3),
        (Tolerance(percent=100), 3, 3),
        (Tolerance(percent=50), 1, 0),
    ],
)
def test_tolerate_allows_so_many_failures_and_not_one_more(tolerance: Tolerance, width: int, allowed: int) -> None:
    spread = workflow(fan_out("f", tolerate=tolerance), task("then", "f"))
    items: Json = [0] * width
    assert Story(spread, items=items).lanes["f"].tolerated == allowed
    assert Story(spread, items=items).end("f", failed=allowed, width=width).of("running") == ["then"]
    if allowed < width:
        assert Story(spread, items=items).end("f", failed=allowed + 1, width=width).of("failed") == ["f"]


def test_tolerate_is_exact_where_a_share_has_decimals() -> None:
    assert Tolerance(percent=1.14).of(5_000) == 57


def test_tolerate_counts_tasks_of_the_work_only() -> None:
    tolerant = workflow(fan_out("f", tolerate=Tolerance(1)), make_node("g", kind=Kind.FAN_IN, after=("f",)))
    story = Story(tolerant, items=[0]).end("f", failed=1)
    assert story.of("failed") == []
    assert story.end("g", failed=1).of("failed") == ["g"]


def test_on_failure_fail_stops_what_runs_and_what_waits() -> None:
    story = Story(workflow(task("a"), task("b"), task("c", "b"))).end("a", failed=1)
    assert (story.of("failed"), story.of("cancelled"), story.of("skipped")) == (["a"], ["b"], ["c"])
    assert story.job.state is JobState.FAILED


def test_on_failure_finish_lets_what_runs_go_on_and_begins_nothing() -> None:
    patient = workflow(task("a", on_failure=OnFailure.FINISH), task("b", aggregated=True), task("c", "b"))
    story = Story(patient).end("a", failed=1)
    assert (story.of("running"), story.of("skipped"), story.job.state) == (["b"], ["c"], JobState.RUNNING)
    assert story.end("b").lanes["b"].purpose is Purpose.AGGREGATE
    assert story.job.state is JobState.RUNNING
    assert story.end("b").of("completed") == ["b"]
    assert story.job == SetJob(JobState.FAILED, replace(ERROR, node="a"))


def test_on_failure_finish_ends_when_another_fails_for_good() -> None:
    mixed = workflow(task("a", on_failure=OnFailure.FINISH), task("b"), task("c"))
    story = Story(mixed).end("a", failed=1).end("b", failed=1)
    assert (story.of("failed"), story.of("cancelled")) == (["a", "b"], ["c"])
    assert story.job.error == replace(ERROR, node="a")


def test_on_failure_continue_hands_on_what_failed() -> None:
    lenient = workflow(
        task("a", on_failure=OnFailure.CONTINUE), task("b", "a", params={"why": "{{ nodes.a.output.error.code }}"})
    )
    story = Story(lenient).end("a", failed=1)
    assert story.of("completed") == ["a"]
    assert story.lanes["b"].values == {"nodes.a.output.error.code": ERROR.code}
    assert story.end("b").job.state is JobState.COMPLETED


def test_on_failure_continue_holds_for_an_expression_that_fails() -> None:
    lenient = workflow(task("a", params={"x": "{{ nodes.z.output.v }}"}, on_failure=OnFailure.CONTINUE), task("b", "a"))
    story = Story(lenient)
    assert (story.of("completed"), story.of("running")) == (["a"], ["b"])
    assert story.outputs["a"] == {
        "error": {"code": "expression.failed", "message": "nodes.z.output.v is missing", "category": "permanent"}
    }


def test_on_failure_continue_does_not_cover_the_planner() -> None:
    planned = workflow(task("a", planned=True, on_failure=OnFailure.CONTINUE))
    assert Story(planned).end("a", failed=1).job.state is JobState.FAILED


def test_on_failure_continue_holds_for_a_fan_in() -> None:
    lenient = make_node("g", kind=Kind.FAN_IN, after=("f",), on_failure=OnFailure.CONTINUE)
    story = Story(workflow(fan_out("f"), lenient, task("then", "g")), items=[1]).end("f").end("g", failed=1)
    assert (story.of("completed"), story.of("running")) == (["f", "g"], ["then"])


@pytest.mark.parametrize(("n", "state"), [(1, "skipped"), (2, "running")])
def test_when_decides_whether_a_node_runs(n: int, state: str) -> None:
    assert Story(workflow(task("a", when="inputs.n > 1")), n=n).of(state) == ["a"]


def test_when_is_asked_only_where_a_node_would_run() -> None:
    story = Story(workflow(task("a", when=False), task("b", "a", when="inputs.gone"), task("c")))
    assert (story.of("skipped"), story.of("running")) == (["a", "b"], ["c"])


def test_when_can_skip_a_conditional_with_all_its_branches() -> None:
    fork = replace(choice("fork", ("== 1", "a"), ("else", "b")), when="inputs.x != 1")
    assert Story(workflow(fork, task("a", "fork"), task("b", "fork")), x=1).of("skipped") == ["fork", "a", "b"]


def test_a_start_and_an_end_take_no_time() -> None:
    story = Story(
        workflow(make_node("s", kind=Kind.START), task("a", "s"), make_node("e", kind=Kind.END, after=("a",)))
    )
    assert (story.of("completed"), story.of("running")) == (["s"], ["a"])
    assert story.end("a").job == SetJob(JobState.COMPLETED, results_of=("a",))


def test_the_output_of_the_end_that_was_reached_is_the_result() -> None:
    ends = workflow(
        choice("fork", ("== 1", "one"), ("else", "two")),
        make_node("one", kind=Kind.END, after=("fork",), output={"n": 1}),
        make_node("two", kind=Kind.END, after=("fork",), output={"n": "{{ inputs.x }}"}),
    )
    assert Story(ends, x=7).job == SetJob(JobState.COMPLETED, result={"n": 7})


def test_the_output_of_the_workflow_is_the_result_before_that_of_an_end() -> None:
    end = make_node("e", kind=Kind.END, after=("a",), output={"n": 1})
    both = Workflow("w", (task("a"), end), output={"id": "{{ job.id }}", "v": "{{ nodes.a.output.v }}"})
    assert Story(both).end("a", {"v": 3}).job == SetJob(JobState.COMPLETED, result={"id": "job", "v": 3})


def test_e10_an_output_that_is_missing_fails_the_job() -> None:
    story = Story(Workflow("w", (task("a"),), output={"v": "{{ nodes.a.output.v }}"})).end("a", {})
    assert story.job.state is JobState.FAILED
    assert story.job.error == Failure(code="expression.failed", message="output: nodes.a.output.v is missing")


def test_without_an_output_the_last_nodes_that_ran_give_the_result() -> None:
    tree = workflow(task("a"), task("b", "a"), task("c", "a"), task("d", "c", when=False), task("e", "b"))
    story = Story(tree).end("a").end("b").end("e").end("c")
    assert story.of("skipped") == ["d"]
    assert set(story.job.results_of) == {"c", "e"}


def test_a_job_ends_with_its_last_lane_and_not_before() -> None:
    story = Story(workflow(task("a"), make_node("e", kind=Kind.END, after=("a",), output={}), task("b")))
    assert story.end("a").of("completed") == ["a", "e"]
    assert story.job.state is JobState.RUNNING
    assert story.end("b").job == SetJob(JobState.COMPLETED, result={})


def test_g8_a_branch_that_was_taken_in_the_same_step_can_be_referred_to() -> None:
    fork = choice("fork", ("== 1", "a"), ("else", "a"))
    story = Story(workflow(fork, task("a", "fork", params={"n": "{{ nodes.fork.output.branch }}"})), x=1)
    assert story.lanes["a"].values == {"nodes.fork.output.branch": 0}


def test_on_failure_continue_hands_on_an_expression_that_failed() -> None:
    lenient = task("a", when="inputs.gone", on_failure=OnFailure.CONTINUE)
    story = Story(workflow(lenient, task("b", "a", params={"why": "{{ nodes.a.output.error.code }}"})))
    assert story.lanes["b"].values == {"nodes.a.output.error.code": "expression.failed"}


def test_g8_what_still_runs_has_no_output() -> None:
    early = task("c", after_any=("a", "b"), params={"n": "{{ nodes.b.output.count? }}"})
    story = Story(workflow(task("a"), fan_out("b"), early), items=[1, 2, 3])
    story.outputs["b"] = {"items": [1], "count": 1, "failed": 0}
    assert story.end("a").lanes["c"].values == {}


def test_g1_a_conditional_that_can_not_choose_fails_whatever_its_policy() -> None:
    fork = replace(choice("fork", ("== 1", "a"), ("else", "b")), on_failure=OnFailure.CONTINUE)
    story = Story(workflow(fork, task("a", "fork"), task("b", "fork")))
    assert (story.of("failed"), story.of("running")) == (["fork"], [])


def test_e10_a_width_that_can_not_be_fails_its_own_node() -> None:
    wide = workflow(task("a"), task("b", "a", spread=Spread.DYNAMIC, count_param="n"))
    story = Story(wide, n=-1).end("a")
    assert (story.of("completed"), story.of("failed")) == (["a"], ["b"])


def test_the_result_is_the_output_that_the_end_had() -> None:
    end = make_node("e", kind=Kind.END, after_any=("a", "b"), output={"v": "{{ nodes.b.output.v? }}"})
    story = Story(workflow(task("a"), task("b"), end)).end("a").end("b", {"v": 1})
    assert story.job.result == story.outputs["e"]


def test_g3_an_any_join_is_one_wherever_its_edges_are_written() -> None:
    join = "c: {handler: h, depends_on: {any_of: [a, b]}}"
    parents = ["a: {handler: h, next: c}", "b: {handler: h, next: c}"]
    for lines in ([join, *parents], [*parents, join]):
        text = "\n  ".join(["workflow_id: w\nnodes:", *lines])
        assert Story(load_yaml(text, "w.yaml").require()).end("a").of("running") == ["b", "c"]


def gate(name: str, *after: str, **more: object) -> AnyNode:
    return make_node(name, kind=Kind.GATE, after=after, **more)  # type: ignore[arg-type]  # fields of Node


def wait(name: str, *after: str, **more: object) -> AnyNode:
    return make_node(name, kind=Kind.WAIT, after=after, **more)  # type: ignore[arg-type]  # fields of Node


def test_a_job_waits_while_nothing_is_open_but_gates_and_waits() -> None:
    story = Story(workflow(task("a"), gate("g"), wait("w", duration_seconds=60), task("b", "g")))
    assert story.job == SetJob(JobState.RUNNING)
    assert story.end("a").job == SetJob(JobState.WAITING)
    assert story.tell(TimeUp("w")).job == SetJob(JobState.WAITING)
    assert story.tell(Signalled("g", {})).job == SetJob(JobState.RUNNING)
    assert story.end("b").job.state is JobState.COMPLETED


def test_a_job_of_gates_alone_waits_at_once_and_ends_with_the_last() -> None:
    story = Story(workflow(gate("g")))
    assert story.job == SetJob(JobState.WAITING)
    assert story.tell(Signalled("g", {"n": 1})).job.state is JobState.COMPLETED


def test_what_a_gate_is_told_is_its_output_and_a_rejection_is_data() -> None:
    ways = (Branch(("publish",), "nodes.g.output.approved == true"), Branch(("drop",), is_default=True))
    choose = make_node("choose", kind=Kind.CONDITIONAL, after=("g",), branches=ways)
    flow = workflow(gate("g"), choose, task("publish", "choose"), task("drop", "choose"))
    assert Story(flow).tell(Signalled("g", {"approved": True})).of("running") == ["publish"]
    rejected = Story(flow).tell(Signalled("g", {"approved": False, "why": "blurred"}))
    assert (rejected.of("running"), rejected.of("skipped")) == (["drop"], ["publish"])
    assert rejected.outputs["g"] == {"approved": False, "why": "blurred"}


def test_a_gate_that_nobody_signals_in_time_fails_the_job() -> None:
    story = Story(workflow(gate("g", timeout=timedelta(hours=1)), task("a", "g")))
    assert story.waits["g"] == OpenWait("g", is_gate=True, seconds=3600)
    story.tell(TimeUp("g"))
    assert (story.of("failed"), story.of("skipped"), story.job.state) == (["g"], ["a"], JobState.FAILED)
    assert story.job.error is not None
    assert (story.job.error.code, story.job.error.node) == ("gate.timed_out", "g")


def test_on_failure_continue_goes_on_after_a_gate_that_nobody_signalled() -> None:
    last = task("a", "g", params={"told": "{{ default(nodes.g.output.approved, false) }}"})
    story = Story(workflow(gate("g", timeout=timedelta(seconds=1), on_failure=OnFailure.CONTINUE), last))
    story.tell(TimeUp("g"))
    assert (story.of("completed"), story.of("running")) == (["g"], ["a"])
    assert story.moves["g"].output is not None
    assert story.moves["g"].output["error"] == {
        "code": "gate.timed_out",
        "message": "nobody signalled it in time",
        "category": "permanent",
        "remedy": "Signal it sooner, or give g a longer timeout_seconds.",
    }
    assert story.end("a").job.state is JobState.COMPLETED


def test_on_failure_finish_of_a_gate_lets_others_wait_on() -> None:
    finish = gate("g", timeout=timedelta(seconds=1), on_failure=OnFailure.FINISH)
    story = Story(workflow(finish, gate("other"), task("a", "other"))).tell(TimeUp("g"))
    assert (story.job, story.of("running")) == (SetJob(JobState.WAITING), ["other"])
    assert story.tell(Signalled("other", {})).job.state is JobState.FAILED


def test_e5_a_gate_is_decided_once() -> None:
    story = Story(workflow(gate("g", timeout=timedelta(seconds=1)), task("a", "g"))).tell(Signalled("g", {"n": 1}))
    before = dict(story.states)
    assert story.tell(TimeUp("g")).tell(Signalled("g", {"n": 2})).states == before
    assert story.outputs["g"] == {"n": 1}


def test_a_failure_elsewhere_cancels_a_gate_that_is_open() -> None:
    story = Story(workflow(task("a"), gate("g"))).end("a", failed=1)
    assert (story.of("failed"), story.of("cancelled"), story.job.state) == (["a"], ["g"], JobState.FAILED)


@pytest.mark.parametrize(
    ("more", "opened"),
    [
        ({"duration_seconds": 90}, {"seconds": 90}),
        ({"duration_seconds": "{{ inputs.n }}"}, {"seconds": 2.5}),
        ({"until": "2030-01-31T12:00:00Z"}, {"until": "2030-01-31T12:00:00+00:00"}),
        ({"until": "{{ inputs.day }}T00:00:00+02:00"}, {"until": "2030-05-01T00:00:00+02:00"}),
    ],
)
def test_a_wait_knows_how_long_or_until_when(more: dict[str, Json], opened: dict[str, object]) -> None:
    story = Story(workflow(wait("w", **more)), n=2.5, day="2030-05-01")
    assert story.waits["w"] == OpenWait("w", is_gate=False, **opened)  # type: ignore[arg-type]  # its fields
    assert story.tell(TimeUp("w")).job.state is JobState.COMPLETED


@pytest.mark.parametrize("n", [-1, 10**9 + 1, True, "5", None])
def test_e10_a_wait_of_no_possible_length_fails_its_node(n: Json) -> None:
    story = Story(workflow(wait("w", duration_seconds="{{ inputs.n }}")), n=n)
    assert (story.job.state, story.of("failed")) == (JobState.FAILED, ["w"])


@pytest.mark.parametrize(
    ("key", "right"), [("a", True), ("x" * 255, True), ("", False), ("x" * 256, False), (5, False)]
)
def test_a_limit_is_a_text_of_some_length(key: Json, right: bool) -> None:
    story = Story(workflow(task("a", params={}, limit="{{ inputs.key }}")), key=key)
    assert story.of("running") == (["a"] if right else [])
    assert not right or story.lanes["a"].limit_key == key


def test_a_node_that_runs_a_workflow_asks_for_its_definition_by_hash() -> None:
    node = make_node("sub", kind=Kind.WORKFLOW, workflow="child", workflow_hash="abc", params={"n": "{{ inputs.n }}"})
    lane = Story(workflow(node), n=1).lanes["sub"]
    assert (lane.queue, lane.handler, lane.shape.workflow) == ("plan:child", "anabranch.workflow", "abc")


def begin_again(flow: Workflow, known: dict[str, NodeState], *kept: str, **taken: int) -> tuple[Transition, ...]:
    facts = Facts("job", {"x": 1}, known, taken, state=JobState.PENDING, kept=frozenset(kept))
    planned = evaluator.plan(flow, facts, Started())
    assert not isinstance(planned, Needs)
    return planned


def test_a_retry_opens_what_is_pending_and_leaves_alone_what_completed() -> None:
    flow = workflow(task("a"), task("b", "a"), task("c", "b"), task("d"))
    changes = begin_again(flow, states(a="completed", b="pending", c="pending", d="completed"))
    assert changes[0] == SetJob(JobState.RUNNING)
    assert opened(changes) == [("b", Purpose.WORK)]
    assert [(change.node, change.state) for change in changes if isinstance(change, SetNode)] == [
        ("b", NodeState.RUNNING)
    ]


def test_a_retried_node_that_keeps_its_results_goes_on_with_its_lane() -> None:
    flow = workflow(fan_out("a"), task("b", "a"))
    changes = begin_again(flow, states(a="pending", b="pending"), "a")
    assert changes == (SetJob(JobState.RUNNING), SetNode("a", NodeState.RUNNING), KeepLane("a", "default"))


def test_a_retried_node_that_keeps_its_plan_is_not_planned_again() -> None:
    flow = workflow(task("a", planned=True, spread=Spread.DYNAMIC), task("b", "a"))
    assert KeepLane("a", "default") in begin_again(flow, states(a="pending", b="pending"), "a")
    assert opened(begin_again(flow, states(a="pending", b="pending"))) == [("a", Purpose.PLAN)]


def test_a_retry_judges_what_was_skipped_by_the_branch_that_was_taken() -> None:
    flow = workflow(choice("c", ("== 1", "yes"), ("else", "no")), task("yes", "c"), task("no", "c"), task("other"))
    known = states(c="completed", yes="completed", no="pending", other="pending")
    changes = begin_again(flow, known, c=0)
    assert SetNode("no", NodeState.SKIPPED) in changes
    assert opened(changes) == [("other", Purpose.WORK)]


def test_a_retry_whose_nodes_are_all_skipped_or_done_ends_the_job_at_once() -> None:
    flow = workflow(task("a"), task("b", "a", when="inputs.x == 2"))
    changes = begin_again(flow, states(a="completed", b="pending"))
    assert changes[-1] == SetJob(JobState.COMPLETED, results_of=("a",))


def test_e5_a_right_to_start_that_comes_twice_begins_nothing() -> None:
    facts = Facts("job", {}, states(a="pending"), state=JobState.RUNNING)
    assert evaluator.plan(workflow(task("a")), facts, Started()) == ()
