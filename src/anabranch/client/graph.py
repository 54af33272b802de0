"""A job's graph, as the API returns it."""

from dataclasses import dataclass, field

from anabranch.client.answers import Raw

__all__ = ["Graph", "GraphEdge", "GraphNode"]


@dataclass(frozen=True)
class GraphNode:
    """A node of a job's graph: `kind` is its shape, and `note` a second line."""

    id: str
    label: str
    kind: str
    note: str
    state: str


@dataclass(frozen=True)
class GraphEdge:
    """An edge of a job's graph; `label` is a branch's condition."""

    tail: str
    head: str
    label: str


@dataclass(frozen=True)
class Graph:
    """The workflow that a job was pinned to, with the states of its nodes; `raw` also has their positions."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Graph":
        """Read a graph."""
        nodes = (GraphNode(*(node[name] for name in GraphNode.__dataclass_fields__)) for node in raw["nodes"])
        edges = (GraphEdge(edge["tail"], edge["head"], edge["label"]) for edge in raw["edges"])
        return cls(tuple(nodes), tuple(edges), raw)
