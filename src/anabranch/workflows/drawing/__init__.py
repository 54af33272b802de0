"""A workflow's DAG as a drawing: laid out in layers, shown as SVG or as text, the same for the same graph."""

from anabranch.workflows.drawing.layout import Box, Edge, Layout, Route, Vertex, draw
from anabranch.workflows.drawing.svg import STYLE, to_svg
from anabranch.workflows.drawing.text import to_text

__all__ = ["STYLE", "Box", "Edge", "Layout", "Route", "Vertex", "draw", "to_svg", "to_text"]
