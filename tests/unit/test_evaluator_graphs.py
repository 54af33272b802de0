"""The evaluator on random graphs, event by event, held against a naive interpreter of what a workflow means (G10)."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.canonical import Json
from anabranch.engine.advancing.evaluator import plan
from anabranch.engine.advancing.lanes import OpenLane
from anabranch.engine.advancing.transitions import (
    ABSENT,
    Absent,
    BeginCleanup,
    EndJob,
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
    Values,
)
from anabranch.engine.failure import Failure
from anabranch.engine.model import TERMINAL_STATES, JobState, NodeState, Purpose
from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Branch
from anabranch.workflows.expressions import Missing, Reference, walk
from anabranch.workflows.nodes import (
    AnyNode,
    ConditionalNode,
    FanInNode,
    GateNode,
    Kind,
    Node,
    OnFailure,
    Spread,
    StageNode,
    TaskNode,
    Tolerance,
)
from anabranch.workflows.validation import find_workflow_mistakes
from tests.support.naive import Ending, Meaning, interpret, output_of
from tests.support.nodes import make_node

Thing = TypeVar("Thing")
MOST_NODES = 9
ENDED = frozenset(NodeState) - {NodeState.PENDING, NodeState.RUNNING}
ERROR = Failure(code="handler.permanent", message="no")
LANES = {Purpose.PLAN: 0, Purpose.WORK: 1, Purpose.AGGREGATE: 2, Purpose.GATE: 0}
KINDS = (
    *[Kind.TASK] * 4,
    *[Kind.CONDITIONAL, Kind.FAN_OUT, Kind.FAN_IN, Kind.GATE] * 2,
    Kind.WAIT,
    Kind.WORKFLOW,
    Kind.END,
)
FIELDS = {
    Kind.TASK: "v",
    Kind.FAN_IN: "v",
    Kind.FAN_OUT: "count",
    Kind.CONDITIONAL: "branch",
    Kind.GATE: "v",
    Kind.WORKFLOW: "v",
}


@dataclass(frozen=True)
class Case:
    """A workflow, and all that happens to a job of it."""

    workflow: Workflow
    inputs: Mapping[str, Json]
    endings: Mapping[str, Ending]

    def meaning(self) -> Meaning:
        return interpret(self.workflow, self.inputs, self.endings, "job")


class Run:
    """A job, driven event by event in the order in which its lanes end; what must hold at every step is checked."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.workflow = case.workflow
        self.states = dict.fromkeys(case.workflow.names, NodeState.PENDING)
        self.taken: dict[str, int] = {}
        self.failure: Failure | None = None
        self.job = JobState.PENDING
        self.end: SetJob | None = None
        self.ending: SetJob | None = None
        self.outputs: dict[str, Json] = {}
        self.lanes: set[tuple[str, Purpose]] = set()
        self.running: list[tuple[int, str, Purpose, int]] = []
        self.now = 0
        self.ended: dict[str, int] = {}
        self.log: list[Transition] = []

    def play(self) -> "Run":
        self._step(Started())
        while self.running:
            self.now, name, purpose, width = heapq.heappop(self.running)
            if self.states[name] is NodeState.RUNNING:
                self._step(self._event(name, purpose, width))
        return self

    def meaning(self) -> Meaning:
        """How it ended, in the interpreter's words."""
        assert self.end is not None
        blamed = None if self.end.error is None else self.end.error.node
        assert blamed is None or isinstance(blamed, str)
        done = frozenset(self.end.results_of)
        return Meaning(self.states, self.ended, self.taken, self.end.state, blamed, self.end.result, done)

    def _event(self, name: str, purpose: Purpose, width: int) -> Event:
        if purpose is Purpose.WAIT:
            return TimeUp(name)
        if purpose is Purpose.GATE:
            payload = self.case.endings[name].result
            assert isinstance(payload, dict)
            return Signalled(name, payload)
        return self._ended(name, purpose, width)

    def _ended(self, name: str, purpose: Purpose, width: int) -> LaneEnded:
        ending = self.case.endings[name]
        failed = min(ending.fails.get(purpose, 0), width)
        if purpose is not Purpose.PLAN:
            self.outputs[name] = output_of(self.workflow.node(name), ending, width)
        return LaneEnded(name, purpose, failed, ERROR if failed else None, width)

    def _step(self, event: Event) -> None:
        assert self.job not in TERMINAL_STATES
        self.asked: set[str] = set()
        changes = self._plan(event)
        for change in changes:
            self._apply(change)
        self._check_asked({change.node for change in changes if isinstance(change, SetNode)})
        if any(isinstance(change, BeginCleanup) for change in changes):
            self._step(Started())
        opened = [node for node in self.workflow.nodes if self.states[node.name] is NodeState.RUNNING]
        waits = bool(opened) and all(node.kind.waits for node in opened)
        assert waits is (self.job is JobState.WAITING), "a job waits when nothing is open but gates and waits"

    def _apply(self, change: Transition) -> None:
        self.log.append(change)
        if isinstance(change, OpenLane):
            self._open(change)
        elif isinstance(change, OpenWait):
            self._wait(change)
        elif isinstance(change, SetNode):
            self._set_node(change)
        elif isinstance(change, SetJob):
            self._set_job(change)
        elif isinstance(change, BeginCleanup):
            self._begin_cleanup(change.end)
        elif isinstance(change, EndJob):
            assert self.ending is not None
            self._set_job(self.ending)

    def _begin_cleanup(self, end: SetJob) -> None:
        assert self.ending is None, "it begins once"
        cleanup = {node.name for node in self.workflow.nodes if node.cleanup}
        assert cleanup == {name for name, state in self.states.items() if state not in ENDED}
        assert cleanup == {name for name, state in self.states.items() if state is NodeState.PENDING}
        self.job, self.ending = JobState.RUNNING, end

    def _check_asked(self, moved: set[str]) -> None:
        """It asks only for outputs that change no more, of nodes before one that it moves, or for the job's result."""
        assert all(self.states[name] in ENDED for name in self.asked)
        before = set[str]().union(*(ancestors(self.workflow, name) for name in moved))
        assert self.end is not None or self.ending is not None or self.asked <= before

    def _plan(self, event: Event) -> tuple[Transition, ...]:
        ending = None if self.ending is None else self.ending.state
        facts = Facts(
            "job",
            dict(self.case.inputs),
            dict(self.states),
            dict(self.taken),
            self.failure,
            state=self.job,
            ending=ending,
        )
        values: dict[tuple[str | int, ...], Json | Absent] = {}
        while isinstance(planned := self._plan_twice(facts, event, values), Needs):
            found = {reference.path: self._look_up(reference) for reference in planned.references}
            assert found, "it asks for something"
            assert found.keys().isdisjoint(values), "it asks for nothing that it was given"
            self.asked |= {str(path[0]) for path in found}
            values |= found
        return planned

    def _plan_twice(self, facts: Facts, event: Event, values: Values) -> tuple[Transition, ...] | Needs:
        """A plan is a pure function: asked again, it says the same, and it changes nothing that it was given."""
        before = (dict(facts.states), dict(facts.taken), dict(values))
        planned = plan(self.workflow, facts, event, values)
        assert plan(self.workflow, facts, event, values) == planned
        assert (facts.states, facts.taken, values) == before
        return planned

    def _look_up(self, reference: Reference) -> Json | Absent:
        name = str(reference.path[0])
        try:
            return walk(self.outputs[name], reference.path[2:], reference) if name in self.outputs else ABSENT
        except Missing:
            return ABSENT

    def _open(self, lane: OpenLane) -> None:
        assert self.states[lane.node] is NodeState.RUNNING
        assert (lane.node, lane.purpose) not in self.lanes, "a lane is opened once"
        self.lanes.add((lane.node, lane.purpose))
        node = self.workflow.node(lane.node)
        if isinstance(node, FanInNode):
            self._check_sources(node, lane)
        ending = self.case.endings[lane.node]
        widths = {"count": lane.source.count, "items": len(lane.source.items or ()), "plan": ending.planned}
        heapq.heappush(
            self.running,
            (self.now + ending.takes[lane.purpose], lane.node, lane.purpose, widths[lane.source.kind] or 0),
        )

    def _check_sources(self, node: FanInNode, lane: OpenLane) -> None:
        """A fan-in collects, in its own order, what completed before it, and names what was skipped."""
        sources = node.sources or [name for name in node.after if self.workflow.node(name).kind is Kind.FAN_OUT]
        ran = [name for name in sources if self.states[name] is NodeState.COMPLETED]
        assert [*(lane.shape.collected or ())] == ran
        left = [name for name in node.sources if name not in ran]
        assert [*lane.shape.skipped] == left
        assert all(self.states[name] is NodeState.SKIPPED for name in left), "it waits for all of its sources"

    def _wait(self, wait: OpenWait) -> None:
        """A gate may be told, or its time may be up; whichever comes second finds it decided."""
        assert self.states[wait.node] is NodeState.RUNNING
        assert wait.is_gate is (self.workflow.node(wait.node).kind is Kind.GATE)
        if wait.seconds is not None:
            heapq.heappush(self.running, (self.now + int(wait.seconds), wait.node, Purpose.WAIT, 0))
        if wait.is_gate and self.case.endings[wait.node].signalled:
            takes = self.case.endings[wait.node].takes[Purpose.GATE]
            heapq.heappush(self.running, (self.now + takes, wait.node, Purpose.GATE, 0))

    def _set_node(self, change: SetNode) -> None:
        assert self.states[change.node] not in ENDED, "terminal states absorb (E5)"
        assert self.states[change.node] is not change.state
        self.states[change.node] = change.state
        if change.state in ENDED:
            self.ended[change.node] = self.now
        if change.output is not None:
            self.outputs[change.node] = change.output
            if self.workflow.node(change.node).kind is Kind.CONDITIONAL:
                branch = change.output["branch"]
                assert isinstance(branch, int)
                self.taken[change.node] = branch
        if change.state is NodeState.FAILED:
            self.failure = self.failure or change.error

    def _set_job(self, change: SetJob) -> None:
        assert self.job not in TERMINAL_STATES, "a job ends once"
        self.job = change.state
        if change.state in TERMINAL_STATES:
            assert ENDED.issuperset(self.states.values()), "a job ends when nothing is open (E1)"
            self.end = change


def ancestors(workflow: Workflow, name: str) -> set[str]:
    parents = workflow.node(name).parents
    return set(parents).union(*(ancestors(workflow, parent) for parent in parents))


def lanes_of(node: Node) -> list[Purpose]:
    """The lanes that a node goes through, its work first."""
    if node.kind is Kind.FAN_IN:
        return [Purpose.AGGREGATE]
    if node.kind is Kind.GATE:
        return [Purpose.GATE]
    if not isinstance(node, StageNode):
        return [Purpose.WORK]
    return [Purpose.WORK, *[Purpose.PLAN] * node.planned, *[Purpose.AGGREGATE] * node.aggregated]


class Drawing:
    """Random graphs, and what happens to jobs of them."""

    def __init__(self, draw: st.DrawFn, *, total: bool = False) -> None:
        """Total: no expression can fail."""
        self.draw = draw
        self.total = total
        self.nodes: dict[str, AnyNode] = {}
        self.settled: dict[str, list[str]] = {}

    def workflow(self) -> Workflow:
        if self.chance(3):
            self.nodes["begin"] = make_node("begin", kind=Kind.START)
            self.settled["begin"] = []
        for number in range(self.number(1, MOST_NODES)):
            node = self._node(f"n{number}")
            self.nodes[node.name] = node
        known = list(self.nodes)
        nodes = tuple(map(self._with_branches, self.nodes.values()))
        return Workflow("w", (*nodes, *self._cleanup(nodes)), output=self._fields(known) if self.chance(5) else None)

    def _cleanup(self, nodes: Sequence[AnyNode]) -> Iterator[AnyNode]:
        """Up to two cleanup nodes, of which one may wait for the other."""
        passed = {name for node in nodes for name in node.parents}
        last = tuple(node.name for node in nodes if node.name not in passed)
        known, before = list(self.nodes), tuple[str, ...]()
        for number in range(self.pick((0, 0, 1, 2))):
            name = f"c{number}"
            yield make_node(
                name,
                "h",
                (*last, *(before if self.chance(2) else ())),
                cleanup=True,
                on_failure=self.pick(tuple(OnFailure)),
                when=self.pick((None, None, self._condition(known), "job.ending == 'failed'")),
                params={**self._fields(known), **({"how": "{{ job.ending }}"} if self.chance(3) else {})},
            )
            before = (name,)

    def _node(self, name: str) -> AnyNode:
        kind, edges = self._linked(self.pick(KINDS))
        known = self.settled[name] = self._settled(**edges)
        if kind is Kind.FAN_IN:
            edges |= {"sources": self._sources(edges["after"])}
        if kind is not Kind.END and self.chance(4):
            return make_node(name, kind=kind, **edges, when=self._condition(known), **self._more(kind, known))
        return make_node(name, kind=kind, **edges, **self._more(kind, known))

    def _more(self, kind: Kind, known: list[str]) -> dict[str, Any]:
        """The fields of a node that its kind has."""
        if kind is Kind.END:
            return {"output": self._fields(known) if self.chance(2) else None}
        if kind is Kind.CONDITIONAL:
            return {}
        fields: dict[Kind, Callable[[list[str]], dict[str, Any]]] = {
            Kind.TASK: self._task,
            Kind.FAN_OUT: self._fan_out,
            Kind.FAN_IN: lambda _: {},
            Kind.GATE: self._gate,
            Kind.WAIT: self._wait,
            Kind.WORKFLOW: lambda known: {"workflow": "child", "params": self._fields(known)},
        }
        return {"on_failure": self.pick(tuple(OnFailure)), **fields[kind](known)}

    def _gate(self, _known: list[str]) -> dict[str, Any]:
        """A gate that is told in time where nothing may fail; its own bit keeps its end apart from all others."""
        seconds = (10 if self.total else self.number(0, 9)) << 40 | 1 << (3 * len(self.nodes) + 1)
        return {"timeout": timedelta(seconds=seconds) if self.chance(2) else None}

    def _wait(self, _known: list[str]) -> dict[str, Any]:
        """A wait of less than a second of the others' time; unless all are total, it may not know how long."""
        if not self.total and self.chance(6):
            return {"duration_seconds": self.pick(("{{ inputs.b }}", "{{ inputs.gone }}"))}
        return {"duration_seconds": 1 << (3 * len(self.nodes))}

    def _linked(self, kind: Kind) -> tuple[Kind, dict[str, Any]]:
        """The parents of a node, and its kind; a fan-in has some with tasks among them, and waits for them."""
        fan_outs = [node.name for node in self.nodes.values() if node.kind.has_tasks]
        if not fan_outs and kind is Kind.FAN_IN:
            kind = Kind.FAN_OUT
        collected = self._some(fan_outs) or [self.pick(fan_outs)] if kind is Kind.FAN_IN else []
        barred = fan_outs if kind is Kind.FAN_IN else []
        parents = self._some([n.name for n in self.nodes.values() if n.kind is not Kind.END and n.name not in barred])
        if not parents and not collected and "begin" in self.nodes:
            parents = ["begin"]
        if not parents and kind is Kind.END:
            kind = Kind.TASK
        any_of = [parent for parent in parents if self.chance(2)] if self.chance(2) else []
        after = [*collected, *(parent for parent in parents if parent not in any_of)]
        return kind, {"after": tuple(after), "after_any": tuple(any_of)}

    def _sources(self, after: tuple[str, ...]) -> tuple[str, ...]:
        """What a fan-in collects, in any order; none is said where it is one fan-out."""
        found = [name for name in after if self.nodes[name].kind.has_tasks]
        is_plain = [self.nodes[name].kind for name in found] == [Kind.FAN_OUT]
        return () if is_plain else tuple(self.draw(st.permutations(found)))

    def _settled(self, after: tuple[str, ...], after_any: tuple[str, ...]) -> list[str]:
        """The nodes that are decided whenever this one is reached: an `any` join does not wait for all before it."""
        all_of = [{parent, *self.settled[parent]} for parent in after]
        any_of = [{parent, *self.settled[parent]} for parent in after_any]
        return sorted(set[str]().union(*all_of, set.intersection(*any_of) if any_of else ()))

    def _task(self, known: list[str]) -> dict[str, Any]:
        shape = self.number(0, 7)
        if shape == 0:
            return {"handler": "h", "spread": Spread.DYNAMIC, "planned": True, "aggregated": self.chance(2)}
        if shape == 1:
            return {"handler": "h", "spread": Spread.FIXED, "count": self.number(0, 3)}
        if shape == 2:
            return {"handler": "h", "aggregated": True}
        return {"handler": "h", "params": self._fields(known)}

    def _fan_out(self, known: list[str]) -> dict[str, Any]:
        tolerances = (Tolerance(), Tolerance(), Tolerance(1), Tolerance(percent=50), Tolerance(percent=34))
        return {
            **self.pick(({"handler": "h"}, {"workflow": "child"})),
            "source": self._source(known),
            "params": self._fields(known),
            "tolerate": self.pick(tolerances),
            "max_items": self.pick((None, 10 if self.total else 3)),
            "batch_size": self.pick((None, 2)),
        }

    def _with_branches(self, node: AnyNode) -> AnyNode:
        """A conditional whose children each hang on one of its branches or more."""
        if not isinstance(node, ConditionalNode):
            return node
        ways = range(self.pick((2, 3, 1)))
        children = [child.name for child in self.nodes.values() if node.name in child.parents]
        hangs = {(child, self.pick(ways)) for child in children for _ in range(self.number(1, 2))}
        branches = tuple(
            Branch(
                next=tuple(child for child in children if (child, way) in hangs),
                condition=None if way == ways[-1] else self._short_condition(self.settled[node.name]),
                is_default=way == ways[-1],
            )
            for way in ways
        )
        return replace(node, subject=self._hole(self.settled[node.name]), branches=branches)

    def _short_condition(self, known: list[str]) -> str:
        return self.pick(("== 0", "!= 1", "is_null")) if self.chance(2) else self._condition(known)

    def _condition(self, known: list[str]) -> str:
        return f"{self._operand(known)} {self.pick(('== 0', '!= 1', 'is_not_null', 'in [0, 1, null]'))}"

    def _fields(self, known: list[str]) -> dict[str, Json]:
        return {"p": self._hole(known)} if self.chance(3) else {}

    def _hole(self, known: list[str]) -> str:
        return f"{{{{ {self._operand(known)} }}}}"

    def _operand(self, known: list[str]) -> str:
        """A number or null; unless all are total, it may be missing."""
        named = [name for name in known if self.nodes[name].kind in FIELDS]
        if not named or self.chance(3):
            return "inputs.gone" if not self.total and self.chance(12) else self.pick(("inputs.a", "inputs.b"))
        name = self.pick(named)
        reference = f"nodes.{name}.output.{FIELDS[self.nodes[name].kind]}"
        is_total = self.total or self.chance(2)
        return self.pick((f"{reference}?", f"default({reference}, 0)")) if is_total else reference

    def _source(self, known: list[str]) -> str:
        named = [name for name in known if self.nodes[name].kind is Kind.TASK]
        if not named or self.chance(2):
            return "{{ inputs.list }}"
        reference = f"nodes.{self.pick(named)}.output.list"
        return f"{{{{ default({reference}, []) }}}}" if self.total or self.chance(2) else f"{{{{ {reference} }}}}"

    def inputs(self) -> dict[str, Json]:
        return {"a": self.number(0, 2), "b": None, "list": [0] * self.number(0, 4)}

    def endings(self, workflow: Workflow, *, failing: bool) -> dict[str, Ending]:
        ended = [node for node in workflow.nodes if node.kind.has_tasks or node.kind is Kind.GATE]
        return {node.name: self._ending(workflow, node, failing) for node in ended}

    def _ending(self, workflow: Workflow, node: Node, failing: bool) -> Ending:
        fails = {self.pick(lanes_of(node)): self.number(1, 3)} if failing and self.chance(3) else {}
        value = self.number(0, 4)
        result: Json = {"v": value, "list": [0] * value}
        signalled = not isinstance(node, GateNode) or node.timeout is None or not failing or not self.chance(3)
        planned = self.number(0, 3) if isinstance(node, StageNode) and node.planned else 1
        return Ending(self.times(workflow, node), fails, result, planned, signalled)

    def times(self, workflow: Workflow, node: Node) -> dict[Purpose, int]:
        """Times whose sums all differ, for each lane has a bit of its own: no two lanes of a job end at once."""
        place = 3 * workflow.names.index(node.name)
        return {lane: self.number(1, 9) << 40 | 1 << (place + LANES[lane]) for lane in lanes_of(node)}

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, one_in: int) -> bool:
        return self.number(1, one_in) == one_in

    def pick(self, these: Sequence[Thing]) -> Thing:
        return self.draw(st.sampled_from(these))

    def _some(self, names: list[str]) -> list[str]:
        return self.draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []


def examples(count: int) -> settings:
    """So many; some graphs are large, and a busy machine may take its time over them."""
    lenient = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=count, deadline=None, suppress_health_check=lenient)


@st.composite
def cases(draw: st.DrawFn, *, failing: bool = True) -> Case:
    drawing = Drawing(draw, total=not failing)
    workflow = drawing.workflow()
    return Case(workflow, drawing.inputs(), drawing.endings(workflow, failing=failing))


@st.composite
def reordered(draw: st.DrawFn) -> tuple[Case, Case]:
    """The same job twice, and nothing fails; its lanes end in different orders."""
    case, drawing = draw(cases(failing=False)), Drawing(draw)
    endings = {
        name: replace(ending, takes=drawing.times(case.workflow, case.workflow.node(name)))
        for name, ending in case.endings.items()
    }
    return case, replace(case, endings=endings)


@examples(60)
@given(cases())
def test_g4_the_random_graphs_are_sound(case: Case) -> None:
    found = find_workflow_mistakes(case.workflow)
    assert [mistake for mistake in found if "seconds up to" not in mistake.message] == [], "times here are made up"


@examples(250)
@given(cases(failing=False))
def test_g10_what_runs_and_what_is_skipped_is_what_the_workflow_means(case: Case) -> None:
    run = Run(case).play()
    assert run.meaning() == case.meaning()
    assert run.job is JobState.COMPLETED
    ran = [node for node in case.workflow.nodes if run.states[node.name] is NodeState.COMPLETED and node.kind.has_tasks]
    assert run.lanes == {(node.name, purpose) for node in ran for purpose in lanes_of(node)}


@examples(500)
@given(cases())
def test_g10_failures_end_a_job_as_their_policies_say(case: Case) -> None:
    assert Run(case).play().meaning() == case.meaning()


@examples(120)
@given(reordered())
def test_g10_the_order_of_events_does_not_matter_when_nothing_fails(pair: tuple[Case, Case]) -> None:
    one, other = (Run(case).play().meaning() for case in pair)
    assert replace(one, ended={}) == replace(other, ended={})


@examples(150)
@given(cases())
def test_e1_a_failure_ends_the_job_and_nothing_begins_after_it(case: Case) -> None:
    run = Run(case).play()
    moved = [(change.node, change.state) for change in run.log if isinstance(change, SetNode)]
    failed = [place for place, (_, state) in enumerate(moved) if state is NodeState.FAILED]
    for name, state in moved[failed[0] :] if failed else ():
        if case.workflow.node(name).cleanup:
            continue
        lasting = (NodeState.FAILED, NodeState.SKIPPED, NodeState.CANCELLED)
        assert state in lasting or (state is NodeState.COMPLETED and (name, NodeState.RUNNING) in moved)
    assert run.job in TERMINAL_STATES
    assert not failed or run.job is JobState.FAILED


@examples(150)
@given(cases())
def test_e1_cleanup_runs_once_whatever_the_job_came_to(case: Case) -> None:
    run = Run(case).play()
    for node in case.workflow.nodes:
        if isinstance(node, TaskNode) and node.cleanup and node.when is None and not node.params:
            moves = [change.state for change in run.log if isinstance(change, SetNode) and change.node == node.name]
            assert moves[0] is NodeState.RUNNING
            assert (node.name, Purpose.WORK) in run.lanes
            assert len(moves) == 2


@examples(120)
@given(cases())
def test_e5_an_event_that_comes_again_changes_nothing(case: Case) -> None:
    run = Run(case).play()
    facts = Facts("job", case.inputs, run.states, run.taken, run.failure, state=run.job)
    for name, purpose in run.lanes:
        assert plan(case.workflow, facts, LaneEnded(name, purpose, 0)) == ()
    for name in case.workflow.names:
        assert plan(case.workflow, facts, TimeUp(name)) == plan(case.workflow, facts, Signalled(name, {})) == ()
    assert plan(case.workflow, facts, Started()) == ()
