"""Which nodes a retry runs again, and which results it keeps."""

import pytest

from anabranch.engine.job_retry import RetryPlan, choose_retry
from anabranch.engine.model import NodeState
from anabranch.errors import Conflict, InputError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Branch
from anabranch.workflows.nodes import Kind
from tests.support.nodes import make_node

FORK = Workflow(
    "fork",
    (
        make_node("top", "h"),
        make_node("left", "h", ("top",)),
        make_node("right", "h", ("top",)),
        make_node("join", "h", ("left", "right")),
        make_node("last", "h", ("join",)),
    ),
)


def states(**known: str) -> dict[str, NodeState]:
    return {name: NodeState(state) for name, state in known.items()}


FAILED = states(top="completed", left="failed", right="completed", join="skipped", last="skipped")
DONE = states(top="completed", left="completed", right="completed", join="completed", last="completed")


def test_what_failed_runs_again_with_what_it_has_and_all_behind_it_whole() -> None:
    assert choose_retry(FORK, FAILED, {"left": 2}) == RetryPlan(("left", "join", "last"), frozenset({"left"}))


def test_what_was_cancelled_runs_again_too() -> None:
    known = FAILED | states(right="cancelled")
    assert choose_retry(FORK, known, {"left": 1}) == RetryPlan(
        ("left", "right", "join", "last"), frozenset({"left", "right"})
    )


def test_what_failed_behind_another_is_run_whole() -> None:
    """Its parameters may be others when that has run again."""
    known = states(top="failed", left="failed", right="cancelled", join="skipped", last="skipped")
    assert choose_retry(FORK, known, {"top": 1, "left": 1}) == RetryPlan(tuple(FORK.names), frozenset({"top"}))


def test_a_job_that_completed_in_spite_of_failures_tries_these_again() -> None:
    assert choose_retry(FORK, DONE, {"right": 3}) == RetryPlan(("right", "join", "last"), frozenset({"right"}))


def test_a_node_that_is_named_tries_its_failures_again_beside_what_failed_the_job() -> None:
    known = states(top="completed", left="completed", right="failed", join="skipped", last="skipped")
    again = choose_retry(FORK, known, {"left": 1, "right": 1}, nodes=["left"])
    assert again == RetryPlan(("left", "right", "join", "last"), frozenset({"left", "right"}))


def test_of_two_nodes_with_failures_only_the_one_that_is_named_runs_again() -> None:
    assert choose_retry(FORK, DONE, {"left": 1, "right": 1}, nodes=["right"]).kept == {"right"}


def test_from_a_node_all_is_run_whole() -> None:
    assert choose_retry(FORK, DONE, {}, from_node="left") == RetryPlan(("left", "join", "last"), frozenset())


def test_from_a_node_what_failed_elsewhere_runs_again_too() -> None:
    again = choose_retry(FORK, FAILED, {"left": 1}, from_node="right")
    assert again == RetryPlan(("left", "right", "join", "last"), frozenset({"left"}))


def test_from_a_node_that_failed_nothing_of_it_is_kept() -> None:
    assert choose_retry(FORK, FAILED, {"left": 1}, from_node="left").kept == frozenset()


def test_what_was_skipped_is_judged_anew() -> None:
    """It may have been skipped because the job failed, or because of a branch; only the evaluator can tell."""
    branches = (Branch(("yes",), "inputs.n == 1"), Branch(("no",), is_default=True))
    workflow = Workflow(
        "w",
        (
            make_node("choose", kind=Kind.CONDITIONAL, branches=branches),
            make_node("yes", "h", ("choose",)),
            make_node("no", "h", ("choose",)),
            make_node("other", "h"),
        ),
    )
    known = states(choose="completed", yes="completed", no="skipped", other="failed")
    assert choose_retry(workflow, known, {"other": 1}) == RetryPlan(("no", "other"), frozenset({"other"}))


def test_where_nothing_failed_there_is_nothing_to_retry() -> None:
    with pytest.raises(Conflict) as refused:
        choose_retry(FORK, DONE, {"left": 0})
    assert refused.value.code == "retry.nothing_failed"
    assert "--from NODE" in str(refused.value.remedy)


def test_a_node_without_failures_can_only_be_run_whole() -> None:
    with pytest.raises(Conflict) as refused:
        choose_retry(FORK, FAILED, {"left": 1}, nodes=["right"])
    assert refused.value.message == "no task of right failed"
    assert refused.value.remedy.endswith("`anabranch retry --from right`.")


@pytest.mark.parametrize("choice", [{"nodes": ["lft"]}, {"from_node": "lft"}])
def test_a_node_that_is_not_there_is_told_with_the_nearest(choice: dict[str, object]) -> None:
    with pytest.raises(InputError) as refused:
        choose_retry(FORK, FAILED, {}, **choice)  # type: ignore[arg-type]  # its keywords
    assert (refused.value.code, refused.value.remedy) == ("node.not_found", "Did you mean 'left'?")
