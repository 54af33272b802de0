"""What a workflow means, said a second time: by definition instead of by events, to hold the evaluator against (G10).

Every node gets a fate as if nothing could stop a job: when it is reached, when it ends, and how. Each fate is
defined by those of its parents. The first failure in time then cuts off what had not begun, and the first whose policy
is `fail` cuts off what still ran. Cleanup nodes come after all that, as if they were a workflow of their own, to which
what did not complete is null.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from anabranch.canonical import Json
from anabranch.engine.model import JobState, NodeState, Purpose
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import (
    Condition,
    ExpressionError,
    Missing,
    Reference,
    Template,
    evaluate,
    references,
    walk,
)
from anabranch.workflows.nodes import (
    AnyNode,
    ConditionalNode,
    EndNode,
    FanInNode,
    FanOutNode,
    GateNode,
    Kind,
    Node,
    OnFailure,
    Spread,
    StageNode,
    StartNode,
    TaskNode,
    Tolerance,
    WaitNode,
    WorkflowNode,
    WorkingNode,
)

__all__ = ["Ending", "Meaning", "interpret", "output_of"]

Moment = tuple[int, int]
EVENT = -1
END_OF_TIME: Moment = (2**62, 0)


@dataclass(frozen=True)
class Ending:
    """How a node's tasks end if it runs: how long each lane takes, and how many of its tasks fail.

    A gate is told its result after so long, if it is signalled at all. No two lanes of a job may end at the same time,
    or the order of events would be open.
    """

    takes: Mapping[Purpose, int]
    fails: Mapping[Purpose, int] = field(default_factory=dict)
    result: Json = None
    planned: int = 1
    signalled: bool = True


@dataclass(frozen=True)
class Meaning:
    """How and when every node ends, which branches are taken, and the job's end: its result, or the node to blame."""

    states: Mapping[str, NodeState]
    ended: Mapping[str, int]
    taken: Mapping[str, int]
    job: JobState
    blamed: str | None = None
    result: Json = None
    results_of: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fate:
    """What becomes of a node when nothing stops it. A moment is a time, and at that time a place in the workflow."""

    state: NodeState
    begun: Moment
    ended: Moment
    output: Json = None
    branch: int | None = None


def interpret(workflow: Workflow, inputs: Mapping[str, Json], endings: Mapping[str, Ending], job_id: str) -> Meaning:
    """What comes of a workflow with these inputs, when its tasks end so."""
    return _World(workflow, inputs, endings, job_id).meaning()


def output_of(node: Node, ending: Ending, width: int) -> Json:
    """The output of a node whose tasks have ended: the one result, or all there are and how many."""
    stage = node if isinstance(node, StageNode) else None
    if node.kind is Kind.FAN_IN or (stage and stage.aggregated):
        return ending.result
    failed = min(ending.fails.get(Purpose.WORK, 0), width)
    is_single = stage is None or (stage.spread is Spread.SINGLE and not stage.planned)
    if node.kind in (Kind.TASK, Kind.WORKFLOW) and is_single:
        return {"error": {"code": "failed"}} if failed else ending.result
    return {"items": [ending.result] * (width - failed), "count": width - failed, "failed": failed}


class _World:
    """A workflow, and all that will happen to it."""

    def __init__(
        self, workflow: Workflow, inputs: Mapping[str, Json], endings: Mapping[str, Ending], job_id: str
    ) -> None:
        self.workflow = workflow
        self.inputs = inputs
        self.endings = endings
        self.job_id = job_id
        self.fates: dict[str, Fate] = {}
        self.work: Meaning | None = None  # all but the cleanup, once that is known

    def meaning(self) -> Meaning:
        self.work = self._work_of([node.name for node in self.workflow.nodes if not node.cleanup])
        cleanup = {node.name: self._clean(node) for node in self.workflow.nodes if node.cleanup}
        failed = [(fate.ended, name) for name, fate in cleanup.items() if fate.state is NodeState.FAILED]
        whole = replace(
            self.work,
            states={**self.work.states, **{name: fate.state for name, fate in cleanup.items()}},
            ended={**self.work.ended, **{name: fate.ended[0] for name, fate in cleanup.items()}},
        )
        if whole.job is JobState.COMPLETED and failed:
            return replace(whole, job=JobState.FAILED, blamed=min(failed)[1], result=None, results_of=frozenset())
        return whole

    def _clean(self, node: AnyNode) -> Fate:
        """A cleanup node begins when all that is no cleanup has ended, and each cleanup node that it waits for."""
        assert self.work is not None
        before = [self.fates[name].ended[0] for name in node.after if self.workflow.node(name).cleanup]
        now = (max([*self.work.ended.values(), *before]), self.workflow.names.index(node.name))
        self.fates[node.name] = self._reach(node, now)
        return self.fates[node.name]

    def _work_of(self, names: Sequence[str]) -> Meaning:
        fates = {name: self.fate(name) for name in names}
        failed = {name: fate for name, fate in fates.items() if fate.state is NodeState.FAILED}
        first = min((fate.ended for fate in failed.values()), default=END_OF_TIME)
        stop = min((fate.ended for name, fate in failed.items() if self._stops(name, fate, first)), default=END_OF_TIME)
        ends = {name: _cut_off(fate, first, stop) for name, fate in fates.items()}
        states = {name: state for name, (state, _) in ends.items()}
        times = {name: moment[0] for name, (_, moment) in ends.items()}
        taken = {
            name: fate.branch
            for name, fate in fates.items()
            if fate.branch is not None and states[name] is NodeState.COMPLETED
        }
        for name, fate in failed.items():
            if fate.ended == first:
                return Meaning(states, times, taken, JobState.FAILED, name)
        return self._completed(partial(Meaning, states, times, taken), states)

    def _stops(self, name: str, fate: Fate, first: Moment) -> bool:
        return fate.begun <= first and self.workflow.node(name).on_failure is not OnFailure.FINISH

    def _completed(self, end: Callable[..., Meaning], states: Mapping[str, NodeState]) -> Meaning:
        ends = [node for node in self.workflow.nodes if isinstance(node, EndNode) and node.output is not None]
        reached = [node.output_template for node in ends if states[node.name] is NodeState.COMPLETED]
        templates = [self.workflow.output_template] if self.workflow.output is not None else reached
        for template in templates:
            try:
                return end(JobState.COMPLETED, result=self._value(template, END_OF_TIME))
            except ExpressionError:
                return end(JobState.FAILED)
        ran = {n.name for n in self.workflow.nodes if n.kind.has_tasks and states.get(n.name) is NodeState.COMPLETED}
        last = frozenset(name for name in ran if not any(name in self._ancestors(other) for other in ran))
        return end(JobState.COMPLETED, results_of=last)

    def _ancestors(self, name: str) -> set[str]:
        parents = self.workflow.node(name).parents
        return set(parents).union(*(self._ancestors(parent) for parent in parents))

    def fate(self, name: str) -> Fate:
        if name not in self.fates:
            self.fates[name] = self._fate(self.workflow.node(name))
        return self.fates[name]

    def _fate(self, node: AnyNode) -> Fate:
        time, runs = self._join(node)
        now = (time, self.workflow.names.index(node.name))
        return self._reach(node, now) if runs else Fate(NodeState.SKIPPED, now, now)

    def _reach(self, node: AnyNode, now: Moment) -> Fate:
        try:
            if node.condition is not None and self._value(node.condition, now) is False:
                return Fate(NodeState.SKIPPED, now, now)
            return self._run(node, now)
        except ExpressionError:
            if node.on_failure is OnFailure.CONTINUE:
                return Fate(NodeState.COMPLETED, now, now, {"error": {"code": "expression.failed"}})
            return Fate(NodeState.FAILED, now, now)

    def _join(self, node: Node) -> tuple[int, bool]:
        """When it is known whether a node runs, and whether it does: a live edge of each rule is enough, or else none.

        An `all` rule is resolved with its last edge, an `any` rule with its first live one (G2, G3).
        """
        all_of, any_of = self._edges(node, node.after), self._edges(node, node.after_any)
        broken = [max(time for time, _ in edges) for edges in (all_of, any_of) if edges and not any(map(_live, edges))]
        if broken:
            return min(broken), False
        first = min((time for time, live in any_of if live), default=0)
        return max([first, *(time for time, _ in all_of)]), True

    def _edges(self, node: Node, parents: Sequence[str]) -> list[tuple[int, bool]]:
        return [(self.fate(parent).ended[0], self._is_live(parent, node.name)) for parent in parents]

    def _is_live(self, parent: str, child: str) -> bool:
        """An edge lives when its parent completed and, below a conditional, the branch that names it was taken."""
        fate = self.fate(parent)
        if fate.branch is not None:
            conditional = self.workflow.node(parent)
            assert isinstance(conditional, ConditionalNode)
            return child in conditional.branches[fate.branch].next
        return fate.state is NodeState.COMPLETED

    def _run(self, node: AnyNode, now: Moment) -> Fate:
        match node:
            case StartNode():
                return Fate(NodeState.COMPLETED, now, now)
            case EndNode():
                return Fate(NodeState.COMPLETED, now, now, self._value(node.output_template, now))
            case ConditionalNode():
                return self._choose(node, now)
            case FanInNode():
                return self._work(node, now, [(Purpose.AGGREGATE, 1)])
            case FanOutNode() | TaskNode() | WorkflowNode():
                return self._work(node, now, self._lanes(node, now))
            case GateNode():
                return self._gate(node, now)
            case WaitNode():
                return self._wait(node, now)

    def _choose(self, node: ConditionalNode, now: Moment) -> Fate:
        """The first branch whose condition holds; the default stands last and always does (G1)."""
        subject = self._value(node.subject_template, now)
        number = 0
        while not node.branches[number].is_default and not self._value(node.branches[number].test, now, subject):
            number += 1
        output: Json = {"branch": number, "next": list(node.branches[number].next)}
        return Fate(NodeState.COMPLETED, now, now, output, number)

    def _gate(self, node: GateNode, begun: Moment) -> Fate:
        """What it is told, if it is told in time, is its output: a rejection, too."""
        ending = self.endings[node.name]
        told = begun[0] + ending.takes[Purpose.GATE] if ending.signalled else END_OF_TIME[0]
        late = END_OF_TIME[0] if node.timeout is None else begun[0] + int(node.timeout.total_seconds())
        if told < late:
            return Fate(NodeState.COMPLETED, begun, (told, EVENT), ending.result)
        if node.on_failure is OnFailure.CONTINUE:
            return Fate(NodeState.COMPLETED, begun, (late, EVENT), {"error": {"code": "gate.timed_out"}})
        return Fate(NodeState.FAILED, begun, (late, EVENT))

    def _wait(self, node: WaitNode, begun: Moment) -> Fate:
        time = self._value(node.time_template, begun)
        if not isinstance(time, int) or isinstance(time, bool):
            raise ExpressionError("no number")
        return Fate(NodeState.COMPLETED, begun, (begun[0] + time, EVENT), {})

    def _lanes(self, node: WorkingNode, now: Moment) -> list[tuple[Purpose, int]]:
        """The lanes that a node goes through, with their widths."""
        planning = [(Purpose.PLAN, 1)] if isinstance(node, StageNode) and node.planned else []
        aggregating = [(Purpose.AGGREGATE, 1)] if isinstance(node, StageNode) and node.aggregated else []
        width = self._width(node, now)
        self._require_parameters(node, now)
        return [*planning, (Purpose.WORK, width), *aggregating]

    def _width(self, node: WorkingNode, now: Moment) -> int:
        if isinstance(node, StageNode) and node.planned:
            return self.endings[node.name].planned
        if isinstance(node, StageNode) and node.spread is Spread.FIXED:
            return node.count or 0
        if not isinstance(node, FanOutNode):
            return 1
        items = self._value(node.source_template, now)
        if not isinstance(items, list) or len(items) > (node.max_items or 10**6):
            raise ExpressionError("no array, or one that is too long")
        return -(-len(items) // (node.batch_size or 1))

    def _require_parameters(self, node: WorkingNode, now: Moment) -> None:
        template = node.work.template
        for reference in references(template) if template is not None else ():
            if reference.root == "nodes" and not reference.optional:
                self._resolve(now, reference)

    def _work(self, node: Node, begun: Moment, lanes: Sequence[tuple[Purpose, int]]) -> Fate:
        """A node completes with its last lane; a lane in which too many tasks fail is the last, and fails it."""
        ending, time, width = self.endings[node.name], begun[0], 1
        for purpose, tasks in lanes:
            time += ending.takes[purpose]
            is_machinery = purpose is Purpose.PLAN or (purpose is Purpose.AGGREGATE and node.kind is Kind.TASK)
            spared = 0 if is_machinery else _tolerated(node, tasks)
            if min(ending.fails.get(purpose, 0), tasks) > spared:
                return Fate(NodeState.FAILED, begun, (time, EVENT))
            width = tasks
        return Fate(NodeState.COMPLETED, begun, (time, EVENT), output_of(node, ending, width))

    def _value(self, what: Condition | Template | None, now: Moment, subject: Json = None) -> Json:
        return None if what is None else evaluate(what, partial(self._resolve, now), subject)

    def _resolve(self, now: Moment, reference: Reference) -> Json:
        """What a reference names now: inputs, or the output of a node that has completed by then (G8)."""
        if reference.root == "inputs":
            return walk(dict(self.inputs), reference.path, reference)
        if reference.root == "job":
            return self.job_id if self.work is None or reference.path == ("id",) else str(self.work.job)
        name = str(reference.path[0])
        if self.work is not None and self.work.states.get(name, self.fates[name].state) is not NodeState.COMPLETED:
            return None
        fate = self.fate(name)
        if fate.state is not NodeState.COMPLETED or fate.ended > now or fate.output is None:
            raise Missing(reference)
        return walk(fate.output, reference.path[2:], reference)


def _live(edge: tuple[int, bool]) -> bool:
    return edge[1]


def _tolerated(node: Node, tasks: int) -> int:
    """How many tasks of a node's own work may fail."""
    tolerance = node.tolerate if isinstance(node, FanOutNode) else Tolerance()
    return tasks if node.on_failure is OnFailure.CONTINUE else _share(tolerance, tasks)


def _share(tolerance: Tolerance, tasks: int) -> int:
    return max(tolerance.count, int(Fraction(str(tolerance.percent)) * tasks / 100))


def _cut_off(fate: Fate, first: Moment, stop: Moment) -> tuple[NodeState, Moment]:
    """A fate as it comes true: nothing begins after the first failure, and nothing goes on after one that stops all."""
    if fate.begun > first:
        return NodeState.SKIPPED, first
    return (NodeState.CANCELLED, stop) if fate.ended > stop else (fate.state, fate.ended)
