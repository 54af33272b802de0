"""The engine's values as the functions of schema app read them, and as they answer."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from anabranch.canonical import Json, JsonObject, encode
from anabranch.engine.advancing.json_array import Items
from anabranch.engine.advancing.lanes import KeepLane, OpenLane, Source
from anabranch.engine.advancing.transitions import BeginCleanup, EndJob, OpenWait, SetJob, SetNode, Transition
from anabranch.engine.failure import Failure
from anabranch.engine.model import (
    Answer,
    Attempt,
    Checkpoint,
    ChildJob,
    Claim,
    InHand,
    JobState,
    LaneFacts,
    NodeState,
    Purpose,
    Report,
    RightId,
    RightView,
    TaskKey,
)
from anabranch.engine.policy import TaskPolicy, TaskShape
from anabranch.engine.ports import AnswerT, KeyTaken, Submitted, TakenRight, Verdict
from anabranch.engine.submitting.submission import Submission
from anabranch.errors import InputError, Unavailable
from anabranch.workflows.definition import Workflow

__all__ = [
    "Row",
    "index_of",
    "place",
    "read_answers",
    "read_child",
    "read_claims",
    "read_cursor",
    "read_definition",
    "read_right",
    "read_rights",
    "read_submitted",
    "read_verdict",
    "write_batch",
    "write_change",
    "write_in_hand",
    "write_report",
    "write_reports",
    "write_token",
]

Row = dict[str, Any]  # a row of the driver, given its types here
LANE_FIELDS = frozenset(field.name for field in fields(LaneFacts))
CHILD_FIELDS = frozenset(field.name for field in fields(ChildJob))
CHANGES: dict[type[Transition], str] = {
    OpenLane: "open", KeepLane: "keep", OpenWait: "wait", SetNode: "node", SetJob: "job", BeginCleanup: "cleanup",
    EndJob: "end",
}  # fmt: skip
RIGHT_FIELDS = frozenset(field.name for field in fields(RightView))


def read_definition(found: Json) -> Workflow:
    """A stored workflow; Unavailable when only a later release can read it."""
    try:
        return Workflow.from_json(found)
    except ValueError as error:
        raise Unavailable(
            "workflow.unreadable", f"a workflow can't be read: {error}", remedy="Upgrade this process."
        ) from error


def write_batch(submissions: Sequence[Submission]) -> tuple[str, str]:
    """The workflows and the submissions as app.submit_batch reads them, in JSON."""
    workflows = {submission.workflow.hash: submission.workflow for submission in submissions}
    written = ",".join(_submission(place, given) for place, given in enumerate(submissions))
    return encode([_workflow(workflow) for workflow in workflows.values()]), f"[{written}]"


def _workflow(workflow: Workflow) -> JsonObject:
    """A definition as app.submit_batch reads it: as text, for it is stored already but for the first time."""
    nodes: list[Json] = [node.name for node in workflow.nodes]
    parts: list[Json] = list(workflow.parts)
    return {"hash": workflow.hash, "workflow": workflow.id, "definition": workflow.text, "nodes": nodes, "parts": parts}


def _submission(place: int, submission: Submission) -> str:
    """A submission as JSON text; the parameters are JSON text already and are not encoded again."""
    head, tail = submission.identity
    given: JsonObject = {
        "place": place,
        "head": head,
        "tail": tail,
        "scope": submission.scope,
        "hash": submission.workflow.hash,
        "priority": submission.priority,
        "rerun": submission.rerun,
        "correlation_id": submission.correlation_id,
        "submitted_by": submission.by,
        "submitter_scope": submission.by_scope,
    }
    if key := submission.key:
        given.update(key=key.text, request=key.request, keep=f"{key.keep.total_seconds()} s")
    if submission.platform:
        given["platform"] = submission.platform
    if submission.tick:
        given["tick"] = submission.tick
    if submission.trace:
        given["trace"] = submission.trace
    if submission.labels:
        given["labels"] = dict(submission.labels)
    if submission.callbacks:
        given["callbacks"] = list(submission.callbacks)
    if submission.first_transitions is not None:
        given["start"] = [write_change(transition) for transition in submission.first_transitions]
    return f'{encode(given)[:-1]},"parameters":{submission.parameters_text}}}'


def read_submitted(row: Row) -> Submitted | KeyTaken:
    """The result of a submission."""
    if row["job_id"] is None:
        return KeyTaken()
    rights = tuple(TakenRight(RightId(made), 1) for made in row["rights"])
    before = row.get("failed_before")
    return Submitted(row["job_id"], JobState(row["state"]), row["created"], rights, row["replayed"], before)


def write_change(transition: Transition) -> JsonObject:
    """A transition as app.apply reads it; its parts are not copied, for a fan-out may have very many items."""
    name = CHANGES[type(transition)]
    if isinstance(transition, OpenLane):
        return {"do": name, **_write_lane(transition)}
    if isinstance(transition, BeginCleanup):
        return {"do": name, "end": write_change(transition.end)}
    if isinstance(transition, SetNode | SetJob) and transition.error:
        return {"do": name, **vars(transition), "error": transition.error.to_json()}
    return {"do": name, **vars(transition)}


def _write_lane(lane: OpenLane) -> JsonObject:
    """A lane's policy, shape and values are one object in SQL."""
    values: JsonObject = {} if lane.values is None else {"values": lane.values}
    policy: Json = {**lane.policy.to_json(), **lane.shape.to_json(), **values}
    given = {name: value for name, value in vars(lane).items() if name not in ("shape", "values")}
    return {**given, "source": _write_source(lane.source), "policy": policy}


def _write_source(source: Source) -> JsonObject:
    """Where a lane's tasks come from; items in a file were staged before."""
    if isinstance(source.items, Items):
        return {"kind": "staged", "count": len(source.items)}
    return {**vars(source)}


def read_right(right: TakenRight, row: Row) -> RightView:
    """What planning needs of a right that was taken."""
    known = {
        **row,
        "state": JobState(row["state"]),
        "purpose": Purpose(row["purpose"]),
        "states": {name: NodeState(state) for name, state in row["states"].items()},
        "error": Failure.read(row["error"]),
        "failure": Failure.read(row["failure"]),
        "kept": frozenset(row["kept"]),
        "ending": JobState(row["ending"]) if row.get("ending") else None,
    }
    return RightView(id=right.id, takes=right.takes, **_only(RIGHT_FIELDS, known))


def read_verdict(kind: type[AnswerT], row: Row) -> Verdict[AnswerT]:
    """The result of a signal or a retry, with its right."""
    return Verdict(kind(row["verdict"]), TakenRight(RightId(row["right_id"]), 1) if row["right_id"] else None)


def read_child(row: Row) -> ChildJob:
    """A child job that ended, and the task to report for."""
    fence = Attempt(TaskKey(row["lane"], row["idx"]), row["attempt"], row["token"])
    known = {
        **row,
        "id": row["child"],
        "state": JobState(row["state"]),
        "error": Failure.read(row["error"]),
        "policy": TaskPolicy.from_json(row["policy"]),
    }
    return ChildJob(fence=fence, **_only(CHILD_FIELDS, known))


def _facts(facts: Row) -> LaneFacts:
    stored = facts["policy"]
    policy, shape = TaskPolicy.from_json(stored), TaskShape.from_json(stored)
    known = {**facts, "purpose": Purpose(facts["purpose"]), "policy": policy, "shape": shape}
    return LaneFacts(**_only(LANE_FIELDS, known))


def _only(names: frozenset[str], row: Row) -> Row:
    """The fields of a row that a model has: a later release may return more (O4)."""
    return {name: value for name, value in row.items() if name in names}


def read_claims(found: Any) -> list[Claim]:  # {"lanes": …, "fresh": …, …} as app.claim makes it, or None
    """The tasks that a claim took."""
    if found is None:
        return []
    lanes = {int(lane): _facts(facts) for lane, facts in found["lanes"].items()}
    token = found["token"]
    claims = [
        Claim(TaskKey(lane, idx), attempt, token, failures, crashes, index_of(key), handler or lanes[lane].handler,
              item, predecessor, lanes[lane], Checkpoint(*saved[0]) if saved else None)
        for lane, idx, attempt, failures, crashes, key, handler, item, predecessor, *saved in found["tasks"]
    ]  # fmt: skip
    for lane, first, count, items in found["fresh"]:
        claims += _fresh(lane, lanes[lane], token, range(first, first + count), items)
    if noted := {(lane, idx): metadata for lane, idx, metadata in found["metadata"]}:
        for claim in claims:
            claim.metadata = noted.get(claim.key)
    return claims


def _fresh(
    lane: int,
    facts: LaneFacts,
    token: int,
    indexes: range,
    items: list[Any] | None,  # items as JSON
) -> list[Claim]:
    """Tasks not tried in this generation; in some lanes each has parameters of its own, perhaps a key and a handler."""
    handler, first = facts.handler, facts.tried + 1
    if items is None:
        return [Claim(TaskKey(lane, idx), first, token, 0, 0, idx, handler, None, None, facts) for idx in indexes]
    own = {idx: (key, of, item) for idx, key, of, item in items}
    claims = []
    for idx in indexes:
        key, of, item = own.get(idx, (None, None, None))
        index = idx if key is None else index_of(key)
        claims.append(Claim(TaskKey(lane, idx), first, token, 0, 0, index, of or handler, item, None, facts))
    return claims


def write_token(attempt: Attempt) -> JsonObject:
    """An attempt, by its task, number and token."""
    return {"lane": attempt.key.lane, "idx": attempt.key.place, "attempt": attempt.number, "token": attempt.token}


def write_in_hand(in_hand: Sequence[InHand]) -> str:
    """The attempts that a process has, as app.beat reads them."""
    return encode([{**write_token(held.attempt), "started": held.started} for held in in_hand])


def write_reports(reports: Sequence[Report]) -> str:
    """The reports as one JSON text; bodies are JSON text already and are not encoded again."""
    return "[" + ",".join(map(write_report, reports)) + "]"


def write_report(report: Report) -> str:
    """How an attempt ended, as JSON text."""
    (lane, place), number, token = report.attempt
    text = f'{{"lane":{lane},"idx":{place},"attempt":{number},"token":{token},"ended":"' + report.ended + '"'
    for name, json in (("body", report.body), ("metrics", report.metrics), ("handed", report.handed)):
        if json is not None:
            text += f',"{name}":{json}'
    for name, time in (("delay", report.delay), ("ran", report.ran)):
        if time is not None:
            text += f',"{name}":{time.total_seconds()}'
    if report.log is not None:
        text += f',"log":{encode(report.log)}'
    return text + "}"


def read_answers(row: Row) -> list[Answer]:
    """The results of reports, in their order."""
    return [Answer(answer) for answer in row["answers"]]


def read_rights(row: Row) -> list[TakenRight]:
    """The rights that came of a call, each taken for the first time."""
    return [TakenRight(RightId(made), 1) for made in row["rights"]]


def index_of(key: str) -> int | str:
    """A number where the key is one as we write it, else the word."""
    return int(key) if key.isdecimal() and str(int(key)) == key else key


def place(row: Row, *place: str) -> Row:
    """A row with its task's index as callers know it, and with a cursor for the columns that place it in a list."""
    cursor = ".".join(str(row[name]) for name in place)
    shown = {name: value for name, value in row.items() if name not in place}
    return {**shown, "index": index_of(str(row["index"])), "cursor": cursor}


def read_cursor(after: str | None, size: int) -> list[int]:
    """The numbers of a cursor of this many; zeros where there is none."""
    parts = after.split(".") if after else ["0"] * size
    if len(parts) != size or not all(map(str.isdecimal, parts)):
        raise InputError("page.cursor", f"{after!r} is not a cursor", remedy="Use the `next` of the page before.")
    return list(map(int, parts))
