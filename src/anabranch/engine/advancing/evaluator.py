"""Definition, facts and event in; transitions out. Pure: no I/O, no clock, so every rule is a unit test (G10)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from anabranch.canonical import Json, JsonObject, encode
from anabranch.engine.advancing.json_array import Items
from anabranch.engine.advancing.known_values import KnownValues, Unknown
from anabranch.engine.advancing.lanes import (
    KeepLane,
    OpenLane,
    aggregate_lane,
    fan_in_lane,
    plan_lane,
    work_lane,
    work_queue,
)
from anabranch.engine.advancing.transitions import (
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
    Transition,
    Values,
)
from anabranch.engine.failure import Failure
from anabranch.engine.model import TERMINAL_STATES, JobState, NodeState, Purpose
from anabranch.errors import InputError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import ExpressionError
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
    WaitNode,
    WorkingNode,
)
from anabranch.workflows.rules import MAX_TASKS

__all__ = ["plan"]

MAX_WAIT_SECONDS = 10**9
MAX_LIMIT_KEY_CHARS = 255
OPEN_STATES = (NodeState.PENDING, NodeState.RUNNING)


def plan(
    workflow: Workflow, facts: Facts, event: Event, values: Values | None = None
) -> tuple[Transition, ...] | Needs:
    """What follows from an event; nothing when the job has ended or the node has been decided."""
    step = _Step(workflow, facts, values or {})
    step.take(event)
    known = step.known
    return Needs(frozenset(known.needs), frozenset(known.sources)) if known.needs else tuple(step.changes)


class _Step:
    """One event, worked out: states as they become, and the changes that make them so."""

    def __init__(self, workflow: Workflow, facts: Facts, values: Values) -> None:
        self.workflow = workflow
        self.facts = facts
        self.states = dict(facts.states)
        self.taken = dict(facts.taken)
        self.failure = facts.failure
        self.made: dict[str, JsonObject] = {}
        self.changes: list[Transition] = []
        self.known = KnownValues(facts, values, self.states, self.made)

    def take(self, event: Event) -> None:
        """Work out an event."""
        if isinstance(event, Started):
            if self.facts.state is JobState.PENDING:
                self.changes.append(SetJob(JobState.RUNNING))
                self._settle()
            elif self.facts.ending is not None and self.facts.state not in TERMINAL_STATES:
                self._settle()
        elif self.states[event.node] is NodeState.RUNNING:
            node = self.workflow.node(event.node)
            if isinstance(event, LaneEnded):
                self._end(node, event)
            elif isinstance(event, Signalled):
                self._complete(node, event.payload)
            elif node.kind is Kind.WAIT:
                self._complete(node, {})
            else:
                hint = f"Signal it sooner, or give {node.name} a longer timeout_seconds."
                self._give_up(node, Failure(code="gate.timed_out", message="nobody signalled it in time", remedy=hint))
                self._settle()

    def _end(self, node: AnyNode, event: LaneEnded) -> None:
        is_work = event.purpose is Purpose.WORK or node.kind is Kind.FAN_IN
        allowed = node.tolerate.of(event.width) if isinstance(node, FanOutNode) and is_work else 0
        if event.failed > allowed and not (is_work and node.on_failure is OnFailure.CONTINUE):
            self._fail(node, event.error or Failure(code="task.failed", message="a task failed"))
            self._settle()
        elif event.purpose is Purpose.PLAN and isinstance(node, StageNode):
            self.changes.append(work_lane(node, self.facts.parameters, planned=True))
        elif event.purpose is Purpose.WORK and isinstance(node, StageNode) and node.aggregated:
            self.changes.append(aggregate_lane(self.workflow, node))
        else:
            self._complete(node)

    def _complete(self, node: Node, output: JsonObject | None = None) -> None:
        self._set(node, NodeState.COMPLETED, output=output)
        self._settle()

    def _settle(self) -> None:
        """Run or skip every node whose edges allow it, in topological order, and end the job when none is left."""
        for node in self.workflow.nodes:
            may_begin = self.failure is None if not node.cleanup else self.facts.ending is not None
            if self.states[node.name] is NodeState.PENDING and may_begin:
                verdict = self._judge(node)
                if verdict is True:
                    self._reach(node)
                elif verdict is False:
                    self._set(node, NodeState.SKIPPED)
        self._finish()

    def _judge(self, node: Node) -> bool | None:
        """Whether a node runs, by its edges (G2, G3): None while that is open."""
        if node.cleanup:  # whatever became of those before it
            return None if any(self.states[name] in OPEN_STATES for name in node.parents) else True
        all_of = [self._is_live(parent, node.name) for parent in node.after]
        any_of = [self._is_live(parent, node.name) for parent in node.after_any]
        if (all_of and all(live is False for live in all_of)) or (any_of and all(live is False for live in any_of)):
            return False
        return None if None in all_of or (any_of and True not in any_of) else True

    def _is_live(self, parent: str, child: str) -> bool | None:
        state = self.states[parent]
        if state in OPEN_STATES:
            return None
        node = self.workflow.node(parent)
        if state is not NodeState.COMPLETED or not isinstance(node, ConditionalNode):
            return state is NodeState.COMPLETED
        return child in node.branches[self.taken[parent]].next

    def _reach(self, node: AnyNode) -> None:
        try:
            if node.condition is not None and not self.known.value(node.condition):
                self._set(node, NodeState.SKIPPED)
            else:
                self._begin(node)
        except Unknown:
            return
        except ExpressionError as error:
            self._give_up(node, Failure(code="expression.failed", message=error.message, remedy=error.hint or None))
        except InputError as error:
            self._give_up(node, Failure(code=error.code, message=error.message, remedy=error.remedy or None))

    def _begin(self, node: AnyNode) -> None:
        match node:
            case ConditionalNode():
                self._branch(node)
            case StartNode():
                self._set(node, NodeState.COMPLETED)
            case EndNode():
                output = None if node.output_template is None else self.known.fields(node.output_template)
                self._set(node, NodeState.COMPLETED, output=output)
            case GateNode() | WaitNode():
                self._run(node, self._wait(node))
            case _:
                self._run(node, self._lane(node))

    def _run(self, node: Node, opened: OpenWait | OpenLane | KeepLane) -> None:
        self._set(node, NodeState.RUNNING)
        self.changes.append(opened)

    def _give_up(self, node: Node, failure: Failure) -> None:
        failure = replace(failure, category="permanent")
        if (node.kind.has_tasks or node.kind.waits) and node.on_failure is OnFailure.CONTINUE:
            self._set(node, NodeState.COMPLETED, output={"error": failure.to_json()})
        else:
            self._fail(node, failure)

    def _wait(self, node: GateNode | WaitNode) -> OpenWait:
        if isinstance(node, GateNode):
            return OpenWait(node.name, is_gate=True, seconds=node.timeout.total_seconds() if node.timeout else None)
        time = self.known.value(node.time_template)
        if node.until is not None:
            return OpenWait(node.name, is_gate=False, until=_read_time(node, time))
        if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time <= MAX_WAIT_SECONDS:
            raise ExpressionError(f"duration_seconds of {node.name} is not a number of 0 to {MAX_WAIT_SECONDS:,}")
        return OpenWait(node.name, is_gate=False, seconds=time)

    def _branch(self, node: ConditionalNode) -> None:
        subject = None if node.subject_template is None else self.known.value(node.subject_template)
        for number, branch in enumerate(node.branches):
            if branch.is_default or self.known.value(branch.test, subject):
                self.taken[node.name] = number
                self._set(node, NodeState.COMPLETED, output={"branch": number, "next": list(branch.next)})
                return

    def _lane(self, node: WorkingNode | FanInNode) -> OpenLane | KeepLane:
        if node.name in self.facts.kept:
            return KeepLane(node.name, work_queue(node))
        if isinstance(node, FanInNode):
            sources = node.sources or [name for name in node.after if self.workflow.node(name).kind is Kind.FAN_OUT][:1]
            ran = [name for name in sources if self.states[name] is NodeState.COMPLETED]
            return fan_in_lane(node, ran, [name for name in node.sources if name not in ran])
        if isinstance(node, StageNode) and node.planned and node.spread is not Spread.FAN_IN:
            return plan_lane(self.workflow, node)
        items = self._items(node) if isinstance(node, FanOutNode) else None
        known, key = self.known.outputs_named(node.work.template), self._limit_key(node)
        return work_lane(node, self.facts.parameters, items=items, values=known, limit_key=key)

    def _limit_key(self, node: WorkingNode) -> str | None:
        if node.work.limit_template is None:
            return None
        key = self.known.value(node.work.limit_template)
        if not isinstance(key, str) or not 0 < len(key) <= MAX_LIMIT_KEY_CHARS:
            raise ExpressionError(f"the limit of {node.name} is not a text of 1 to {MAX_LIMIT_KEY_CHARS} characters")
        return key

    def _items(self, node: FanOutNode) -> Sequence[Json]:
        found = self.known.source(node.source_template)
        if not isinstance(found, list | Items):
            raise ExpressionError(f"the source of {node.name} is not an array")
        most = node.max_items or MAX_TASKS
        if len(found) > most:
            raise ExpressionError(f"the source of {node.name} has {len(found):,} items; at most {most:,} are allowed")
        if node.batch_size and isinstance(found, Items):
            return found.in_batches(node.batch_size)
        if node.batch_size:
            return [found[start : start + node.batch_size] for start in range(0, len(found), node.batch_size)]
        return found

    def _set(
        self,
        node: Node,
        state: NodeState,
        error: Failure | None = None,
        output: JsonObject | None = None,
    ) -> None:
        self.states[node.name] = state
        if output is not None:
            self.made[node.name] = output
        self.changes.append(SetNode(node.name, state, error, output))

    def _fail(self, node: Node, failure: Failure) -> None:
        failure = replace(failure, node=node.name)
        self.failure = self.failure or failure
        self._set(node, NodeState.FAILED, failure)
        for other in self.workflow.nodes if not node.cleanup else ():
            if other.cleanup:
                break
            if self.states[other.name] is NodeState.PENDING:
                self._set(other, NodeState.SKIPPED)
            elif self.states[other.name] is NodeState.RUNNING and node.on_failure is not OnFailure.FINISH:
                self._set(other, NodeState.CANCELLED)

    def _finish(self) -> None:
        if self.known.needs:
            return
        ending = self.facts.ending
        if any(self.states[n.name] in OPEN_STATES for n in self.workflow.nodes if ending is not None or not n.cleanup):
            self._balance()
        elif ending is None:
            self._end_work()
        else:
            failure = self.failure if ending is JobState.COMPLETED else None
            self.changes.append(SetJob(JobState.FAILED, failure) if failure is not None else EndJob())

    def _end_work(self) -> None:
        """All but the cleanup nodes have ended: end the job, or note how it ends after them."""
        try:
            end = self._completed() if self.failure is None else SetJob(JobState.FAILED, self.failure)
        except Unknown:
            return
        except ExpressionError as error:
            failure = Failure(code="expression.failed", message=f"output: {error.message}")
            end = SetJob(JobState.FAILED, failure)
        self.changes.append(BeginCleanup(end) if self.workflow.cleanup else end)

    def _balance(self) -> None:
        """Say whether the job waits: nothing of it is open but gates and waits."""
        opened = [name for name, state in self.states.items() if state is NodeState.RUNNING]
        waits = bool(opened) and all(self.workflow.node(name).kind.waits for name in opened)
        if waits and self.job_state is not JobState.WAITING:
            self.changes.append(SetJob(JobState.WAITING))
        elif opened and not waits and self.job_state is JobState.WAITING:
            self.changes.append(SetJob(JobState.RUNNING))

    @property
    def job_state(self) -> JobState:
        """The job's state with the changes made so far."""
        states = [change.state for change in self.changes if isinstance(change, SetJob)]
        return states[-1] if states else self.facts.state

    def _completed(self) -> SetJob:
        if self.workflow.output is not None:
            return SetJob(JobState.COMPLETED, result=self.known.fields(self.workflow.output_template))
        for node in self.workflow.nodes:
            if isinstance(node, EndNode) and node.output is not None and self.states[node.name] is NodeState.COMPLETED:
                return SetJob(JobState.COMPLETED, result=self.known.output_of(node.name))
        return SetJob(JobState.COMPLETED, results_of=tuple(self._last()))

    def _last(self) -> Iterator[str]:
        """The nodes with tasks that ran, and after which no other did."""
        behind: set[str] = set()
        for node in reversed(self.workflow.nodes):
            ran = node.kind.has_tasks and self.states[node.name] is NodeState.COMPLETED
            if ran and node.name not in behind:
                yield node.name
            if ran or node.name in behind:
                behind.update(node.parents)


def _read_time(node: Node, time: Json) -> str:
    """A time with its zone, as the store reads it."""
    try:
        read = datetime.fromisoformat(time) if isinstance(time, str) else None
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        raise ExpressionError(
            f"until of {node.name} is not a time with its zone: {encode(time)[:80]}",
            hint="Write it like 2030-01-31T12:00:00Z.",
        )
    return read.isoformat()
