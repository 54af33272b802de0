"""Warns of limits and pauses for unknown names: they may be defined later, or be misspelt."""

from collections.abc import Collection, Sequence

from anabranch.contract.control import Queue
from anabranch.engine.model import LimitKind
from anabranch.engine.registry import Registry
from anabranch.workflows.mistakes import nearest

__all__ = ["warn_of_unknown"]


def warn_of_unknown(kind: LimitKind, name: str, registry: Registry, queues: Sequence[Queue]) -> str | None:
    """A warning for a name that nothing has; None if something has it, or may."""
    known = _known(kind, registry, queues)
    if known is None or name in known:
        return None
    what = "no node names the" if kind is LimitKind.KEY else "there is no"
    return f"{what} {kind} {name!r} yet. {nearest(name, sorted(known))}".strip()


def _known(kind: LimitKind, registry: Registry, queues: Sequence[Queue]) -> Collection[str] | None:
    """The names of a kind; None if they can't be known."""
    if kind is LimitKind.WORKFLOW:
        return registry.declarations
    if kind is LimitKind.HANDLER:
        return registry.handlers
    if kind is LimitKind.QUEUE:
        return {*registry.queues, *(queue.name for queue in queues if queue.workers or queue.ready or queue.running)}
    works = [node.work for workflow in registry.workflows for node in workflow.nodes if node.work is not None]
    keys = {work.limit for work in works if work.limit is not None}
    return None if any("{{" in str(key) for key in keys) else {str(key) for key in keys}
