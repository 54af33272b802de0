"""Which nodes of an ended job run again, and which of their results are kept. Pure, like the evaluator."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from anabranch.engine.model import NodeState
from anabranch.errors import Conflict, InputError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.mistakes import nearest

__all__ = ["RetryPlan", "choose_retry"]

BROKEN_STATES = (NodeState.FAILED, NodeState.CANCELLED)


@dataclass(frozen=True)
class RetryPlan:
    """The nodes that run again, in order; those of `kept` only for the tasks that did not complete."""

    nodes: tuple[str, ...]
    kept: frozenset[str]


def choose_retry(
    workflow: Workflow,
    states: Mapping[str, NodeState],
    failed: Mapping[str, int],
    *,
    nodes: Collection[str] = (),
    from_node: str | None = None,
) -> RetryPlan:
    """The nodes that a retry runs: the failed ones, or these, or all from one node on; and all after them, whole.

    `failed` counts the failed tasks of each node. Without a choice it is what failed the job, or, in a job that
    completed in spite of failures, those.
    """
    for name in (*nodes, *([from_node] if from_node else [])):
        if name not in states:
            raise InputError("node.not_found", f"the job has no node {name!r}", remedy=nearest(name, list(states)))
    if nodes and from_node:
        raise InputError(
            "retry.choice", "either failed tasks of nodes are retried, or a node whole", remedy="Give one of both."
        )
    broken = {name for name, state in states.items() if state in BROKEN_STATES}
    chosen = broken | set(nodes)
    if not chosen and not from_node:
        chosen = {name for name, count in failed.items() if count}
    if unfailed := [name for name in nodes if name not in broken and not failed.get(name)]:
        raise Conflict(
            "retry.nothing_failed",
            f"no task of {unfailed[0]} failed",
            remedy=f"Run it whole, with all that is behind it: `anabranch retry --from {unfailed[0]}`.",
        )
    if not chosen and not from_node:
        remedy = "Name the node to run from: `--from NODE`, over HTTP `from_node`."
        raise Conflict("retry.nothing_failed", "nothing of the job failed", remedy=remedy)
    whole = {from_node} if from_node else set()
    behind = workflow.behind(chosen | whole)
    skipped = {name for name, state in states.items() if state is NodeState.SKIPPED}
    again = chosen | whole | behind | skipped | set(workflow.cleanup)
    return RetryPlan(
        nodes=tuple(node.name for node in workflow.nodes if node.name in again),
        kept=frozenset(chosen - whole - behind - set(workflow.cleanup)),
    )
