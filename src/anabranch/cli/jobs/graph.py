"""The graph of a job, as text."""

from anabranch.cli.terminal.output import print_line
from anabranch.client import Graph
from anabranch.workflows.drawing import Edge, Vertex, draw, to_text
from anabranch.workflows.drawing.text import MARKS

__all__ = ["show_graph"]


def show_graph(graph: Graph) -> None:
    """Draw the nodes of a job with the status of each."""
    vertices = [Vertex(node.id, node.label, node.kind, node.note) for node in graph.nodes]
    edges = [Edge(edge.tail, edge.head, edge.label) for edge in graph.edges]
    states = {node.id: node.status for node in graph.nodes}
    print_line(to_text(draw(vertices, edges), states).removesuffix("\n"))
    print_line("\n" + "  ".join(f"{mark} {state}" for state, mark in MARKS.items() if state in states.values()))
