"""A workflow's DAG as a drawing: laid out in layers, shown as SVG or as text, the same for the same graph."""

from anabranch.engine.graph.layout import Box, Edge, Layout, Route, Vertex, draw
from anabranch.engine.graph.svg import STYLE, to_svg
from anabranch.engine.graph.text import to_text

__all__ = ["STYLE", "Box", "Edge", "Layout", "Route", "Vertex", "draw", "to_svg", "to_text"]
