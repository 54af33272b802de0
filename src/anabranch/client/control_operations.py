"""Operations that control jobs, queues and workers, for both clients."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.client.answers import Page
from anabranch.client.calls import Call
from anabranch.client.control_answers import DeadLetter, Limit, Paused, Queue, Replay, Retry
from anabranch.client.paths import encode_body, job_path, list_of, segment

if TYPE_CHECKING:
    from anabranch.canonical import Json

__all__ = [
    "dead_letters",
    "drain",
    "limits",
    "pause",
    "queues",
    "remove_limit",
    "replay",
    "resume",
    "retry",
    "set_limit",
    "signal",
]


def retry(
    job_id: str, *, nodes: Sequence[str] = (), from_node: str | None = None, dry_run: bool = False
) -> Call[Retry]:
    """Retry the failed tasks of a job or of some of its nodes; or run a whole node and all nodes after it again."""
    body = encode_body({"nodes": list(nodes), "from_node": from_node, "dry_run": dry_run})
    return Call(Retry.of, "POST", f"{job_path(job_id)}/retry", body=body)


def signal(job_id: str, node: str, payload: "Mapping[str, Json] | None" = None) -> Call[bool]:
    """Signal a gate; False if it was already signalled with the same payload, Conflict if with another one."""
    path, body = f"{job_path(job_id)}/signal/{segment(node)}", encode_body(dict(payload or {}))
    return Call(lambda raw: bool(raw["accepted"]), "POST", path, body=body)


def dead_letters(
    *,
    limit: int | None = None,
    after: str | None = None,
    workflow: str | None = None,
    handler: str | None = None,
    code: str | None = None,
) -> Call[Page[DeadLetter]]:
    """The tasks that failed permanently, the newest first."""
    query = {"limit": limit, "after": after, "workflow": workflow, "handler": handler, "code": code}
    return Call(lambda raw: Page.of(DeadLetter.of, raw), "GET", "/api/dead-letters", query=query)


def replay(
    *,
    jobs: Sequence[str] = (),
    workflow: str | None = None,
    handler: str | None = None,
    code: str | None = None,
) -> Call[list[Replay]]:
    """Retry the jobs of dead letters, each from its nodes that have any."""
    body = encode_body({"jobs": list(jobs), "workflow": workflow, "handler": handler, "code": code})
    return Call(list_of(Replay.of), "POST", "/api/dead-letters/replay", body=body)


def queues() -> Call[list[Queue]]:
    """The queues with their numbers of waiting and running tasks."""
    return Call(list_of(Queue.of), "GET", "/api/queues")


def limits() -> Call[list[Limit]]:
    """All limits and pauses."""
    return Call(list_of(Limit.of), "GET", "/api/limits")


def set_limit(kind: str, name: str, most: int, reason: str = "") -> Call[Limit]:
    """Limit how many tasks of a queue, workflow, handler or key run at once."""
    path, body = f"/api/limits/{segment(kind)}/{segment(name)}", encode_body({"most": most, "reason": reason})
    return Call(Limit.of, "PUT", path, body=body)


def remove_limit(kind: str, name: str) -> Call[None]:
    """Remove a limit."""
    return Call(_nothing, "DELETE", f"/api/limits/{segment(kind)}/{segment(name)}")


def pause(kind: str, name: str, reason: str = "") -> Call[Paused]:
    """Pause a `queue` or a `workflow`: no more of its tasks start."""
    path = f"/api/{segment(kind)}s/{segment(name)}/pause"
    return Call(Paused.of, "POST", path, body=encode_body({"reason": reason}))


def resume(kind: str, name: str) -> Call[Paused]:
    """Resume a paused `queue` or `workflow`."""
    return Call(Paused.of, "POST", f"/api/{segment(kind)}s/{segment(name)}/resume")


def drain(session: int, *, draining: bool = True) -> Call[None]:
    """Drain a worker: it takes no more tasks. With `draining=False`, it takes tasks again."""
    verb = "drain" if draining else "resume"
    return Call(_nothing, "POST", f"/api/workers/{session}/{verb}")


def _nothing(_raw: object) -> None:
    """The value of an answer without content."""
