from anabranch.engine import evaluator
from anabranch.engine.canonical import Json
from anabranch.engine.evaluator import Facts, LaneEnded, Needs, SetJob, SetNode, Started, Transition
from anabranch.engine.lanes import OpenLane
from anabranch.engine.model import JobState, NodeState, Purpose
from anabranch.engine.workflow import Node, OnFailure, Spread, Workflow

ERROR: dict[str, Json] = {"code": "handler.permanent", "message": "no"}


def workflow(*nodes: Node) -> Workflow:
    return Workflow("w", nodes)


def two_stages(**more: object) -> Workflow:
    first = Node("first", "f", spread=Spread.FIXED, count=3, **more)  # type: ignore[arg-type]  # fields of Node
    return workflow(first, Node("second", "s", after=("first",)))


def states(**known: str) -> dict[str, NodeState]:
    return {name: NodeState(state) for name, state in known.items()}


def plan(
    workflow: Workflow, parameters: dict[str, Json], known: dict[str, NodeState], event: Started | LaneEnded
) -> tuple[Transition, ...]:
    planned = evaluator.plan(workflow, Facts("job", parameters, known), event)
    assert not isinstance(planned, Needs)
    return planned


def opened(transitions: tuple[Transition, ...]) -> list[tuple[str, Purpose]]:
    return [(t.node, t.purpose) for t in transitions if isinstance(t, OpenLane)]


def test_a_start_opens_the_nodes_that_wait_for_none() -> None:
    diamond = workflow(Node("a", "h"), Node("b", "h"), Node("c", "h", after=("a", "b")))
    result = plan(diamond, {}, states(a="pending", b="pending", c="pending"), Started())
    assert result[0] == SetJob(JobState.RUNNING)
    assert opened(result) == [("a", Purpose.WORK), ("b", Purpose.WORK)]


def test_a_join_waits_for_all_it_comes_after() -> None:
    diamond = workflow(Node("a", "h"), Node("b", "h"), Node("c", "h", after=("a", "b")))
    half = plan(diamond, {}, states(a="running", b="running", c="pending"), LaneEnded("a", Purpose.WORK, 0))
    assert half == (SetNode("a", NodeState.COMPLETED),)
    whole = plan(diamond, {}, states(a="completed", b="running", c="pending"), LaneEnded("b", Purpose.WORK, 0))
    assert opened(whole) == [("c", Purpose.WORK)]


def test_a_planned_node_is_planned_before_it_works() -> None:
    planned = workflow(Node("a", "h", spread=Spread.DYNAMIC, planned=True))
    assert opened(plan(planned, {}, states(a="pending"), Started())) == [("a", Purpose.PLAN)]
    (lane,) = plan(planned, {}, states(a="running"), LaneEnded("a", Purpose.PLAN, 0))
    assert isinstance(lane, OpenLane)
    assert (lane.purpose, lane.source.kind, lane.source.purpose) == (Purpose.WORK, "plan", Purpose.PLAN)


def test_an_aggregated_node_is_aggregated_before_it_completes() -> None:
    aggregated = workflow(Node("a", "h", aggregated=True))
    assert opened(plan(aggregated, {}, states(a="running"), LaneEnded("a", Purpose.WORK, 0))) == [
        ("a", Purpose.AGGREGATE)
    ]
    done = plan(aggregated, {}, states(a="running"), LaneEnded("a", Purpose.AGGREGATE, 0))
    assert done[-1] == SetJob(JobState.COMPLETED, results_of=("a",))


def test_a_fan_in_is_the_engines_and_has_no_planner() -> None:
    joined = workflow(Node("a", "h", planned=True), Node("b", "h", ("a",), Spread.FAN_IN, planned=True))
    lane = plan(joined, {}, states(a="running", b="pending"), LaneEnded("a", Purpose.WORK, 0))[-1]
    assert isinstance(lane, OpenLane)
    assert (lane.purpose, lane.source.count, lane.policy["previous"]) == (Purpose.WORK, 1, "a")


def test_e1_a_failed_node_ends_the_job_and_every_node_behind_it() -> None:
    result = plan(
        two_stages(), {}, states(first="running", second="pending"), LaneEnded("first", Purpose.WORK, 1, ERROR)
    )
    error = {**ERROR, "node": "first"}
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
    dynamic = workflow(Node("a", "h", spread=Spread.DYNAMIC, count_param="n"))
    lane = plan(dynamic, {"n": 7}, states(a="pending"), Started())[-1]
    assert isinstance(lane, OpenLane)
    assert lane.source.count == 7
