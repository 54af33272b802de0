"""A layout as one self-contained SVG: no script, no font to load, colours by class, light and dark."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from anabranch.workflows.drawing.layout import LABEL_LIMIT, Box, Layout, Point, Route
from anabranch.workflows.drawing.measure import clean, fit, pixels

__all__ = ["STATES", "STYLE", "to_svg"]

STATES = ("pending", "running", "waiting", "completed", "failed", "skipped", "cancelled")

STYLE = """
.graph { --ink: #1f2933; --soft: #5f6c7b; --line: #8592a3; --fill: #f4f6f9;
  --running: #1769d2; --running-fill: #e3effd; --completed: #1c7c46; --completed-fill: #e2f4e8;
  --failed: #c22f2f; --failed-fill: #fde7e7; --skipped: #8592a3; --cancelled: #a85b00; --cancelled-fill: #fdf0dc;
  font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.graph text { fill: var(--ink); text-anchor: middle; }
.graph .start text, .graph .end text { text-anchor: start; }
.graph .note { fill: var(--soft); font-size: 11px; }
.graph .label { fill: var(--soft); font-size: 12px; font-style: italic; }
.graph .line { fill: none; stroke: var(--line); stroke-width: 1.5; }
.graph .head { fill: var(--line); }
.graph .shape { fill: var(--fill); stroke: var(--line); stroke-width: 1.5; stroke-linejoin: round; }
.graph .mark { fill: none; stroke: var(--line); stroke-width: 1.5; }
.graph .dot { fill: var(--soft); }
.graph .running .shape { fill: var(--running-fill); stroke: var(--running); stroke-width: 2.5; }
.graph .waiting .shape { fill: var(--cancelled-fill); stroke: var(--cancelled); stroke-width: 2.5; }
.graph .completed .shape { fill: var(--completed-fill); stroke: var(--completed); }
.graph .failed .shape { fill: var(--failed-fill); stroke: var(--failed); stroke-width: 2.5; }
.graph .skipped .shape { fill: none; stroke: var(--skipped); stroke-dasharray: 5 4; }
.graph .skipped text { fill: var(--soft); }
.graph .cancelled .shape { fill: var(--cancelled-fill); stroke: var(--cancelled); stroke-dasharray: 2 3; }
.graph .running .mark { stroke: var(--running); }
.graph .waiting .mark { stroke: var(--cancelled); }
.graph .completed .mark { stroke: var(--completed); }
.graph .failed .mark { stroke: var(--failed); }
.graph .cancelled .mark { stroke: var(--cancelled); }
.graph .running .dot { fill: var(--running); }
.graph .completed .dot { fill: var(--completed); }
.graph .failed .dot { fill: var(--failed); }
.graph .cancelled .dot { fill: var(--cancelled); }
@media (prefers-color-scheme: dark) {
  .graph { --ink: #e6eaf0; --soft: #a3afbf; --line: #7d8a9b; --fill: #222931;
    --running: #6aa9f7; --running-fill: #17304f; --completed: #5cc487; --completed-fill: #173826;
    --failed: #f27d7d; --failed-fill: #4a1f1f; --skipped: #7d8a9b; --cancelled: #e0a458; --cancelled-fill: #40301a; }
}
"""

ARROW = 7.0
STACK = 3.0
BASELINE = 4.5  # from a line's middle; `dominant-baseline` is not drawn everywhere


def to_svg(layout: Layout, states: Mapping[str, str] = {}, *, styled: bool = True, title: str = "Workflow") -> str:
    """The drawing; `states` colours nodes by id. Without `styled` it carries no CSS, and the page brings STYLE."""
    width, height = _number(layout.width), _number(layout.height)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" {size}>',
            f"<title>{escape(clean(title))}</title>",
            *((f"<style>{STYLE}</style>",) if styled else ()),
            *map(_edge, layout.routes),
            *(_node(box, states.get(box.vertex.id, "")) for box in layout.boxes),
            "</svg>\n",
        )
    )


def _edge(route: Route) -> str:
    tail, head = clean(route.edge.tail), clean(route.edge.head)
    x, y = route.points[-1]
    parts = [
        f'<g class="edge" data-tail={quoteattr(tail)} data-head={quoteattr(head)}>',
        f'<path class="line" d="{_path(route)}"/>',
        f'<path class="head" d="M{_at(x - 4, y - ARROW)} L{_at(x, y)} L{_at(x + 4, y - ARROW)} Z"/>',
    ]
    if route.label:
        full = clean(route.edge.label).strip()
        parts += [f"<title>{escape(full)}</title>", _text(full, route.label, ' class="label"')]
    return "".join((*parts, "</g>"))


def _path(route: Route) -> str:
    """The line through the points, curved where it swings, open where its label stands, and short of its arrowhead."""
    x, y = route.points[-1]
    points = [*route.points[:-1], (x, y - ARROW + 1)]
    steps = [f"M{_at(*points[0])}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        if route.label and x0 == x1 == route.label[0] and y0 < route.label[1] < y1:
            steps.append(f"M{_at(x1, y1)}")
        elif x0 == x1:
            steps.append(f"L{_at(x1, y1)}")
        else:
            steps.append(f"C{_at(x0, middle)} {_at(x1, middle)} {_at(x1, y1)}")
    return " ".join(steps)


def _node(box: Box, state: str) -> str:
    vertex = box.vertex
    kind = vertex.kind if vertex.kind in _SHAPES else "task"
    classes = f"node {kind} {state}" if state in STATES else f"node {kind}"
    name = quote(vertex.id, safe="", errors="replace")
    return "".join(
        (
            f'<g id="node-{name}" class="{classes}" data-node={quoteattr(clean(vertex.id))}>',
            f"<title>{escape(_describe(box, state))}</title>",
            *_SHAPES[kind](box),
            *_words(box, kind),
            "</g>",
        )
    )


def _describe(box: Box, state: str) -> str:
    lines = (clean(box.vertex.label).strip(), clean(box.vertex.note).strip(), clean(state).strip())
    return "\n".join(line for line in lines if line)


def _words(box: Box, kind: str) -> Iterator[str]:
    label, note = clean(box.vertex.label).strip(), clean(box.vertex.note).strip()
    x, y = box.middle, box.y + box.height / 2
    if kind in ("start", "end"):
        yield _text(label, (x + 16, y))
        return
    if kind == "fan_out":
        x, y = x - STACK, y - STACK
    yield _text(label, (x, y - 8 if note else y))
    if note:
        yield _text(note, (x, y + 10), ' class="note"', LABEL_LIMIT / 0.85)


def _text(text: str, at: Point, attributes: str = "", limit: float = LABEL_LIMIT) -> str:
    x, y = _number(at[0]), _number(at[1] + BASELINE)
    return f'<text x="{x}" y="{y}"{attributes}>{escape(fit(text, limit, pixels))}</text>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _at(x: float, y: float) -> str:
    return f"{_number(x)},{_number(y)}"


def _rectangle(x: float, y: float, width: float, height: float, radius: float = 7) -> str:
    size = f'width="{_number(width)}" height="{_number(height)}" rx="{_number(radius)}"'
    return f'<rect class="shape" x="{_number(x)}" y="{_number(y)}" {size}/>'


def _polygon(*points: Point) -> str:
    return f'<polygon class="shape" points="{" ".join(_at(x, y) for x, y in points)}"/>'


def _bars(box: Box, *columns: float) -> str:
    lines = " ".join(f"M{_at(x, box.y)} V{_number(box.bottom)}" for x in columns)
    return f'<path class="mark" d="{lines}"/>'


def _task(box: Box) -> Iterator[str]:
    yield _rectangle(box.x, box.y, box.width, box.height)


def _start(box: Box) -> Iterator[str]:
    x, y = _number(box.middle), _number(box.y + box.height / 2)
    yield f'<circle class="shape" cx="{x}" cy="{y}" r="{_number(box.height / 2 - 1)}"/>'


def _end(box: Box) -> Iterator[str]:
    yield from _start(box)
    yield f'<circle class="dot" cx="{_number(box.middle)}" cy="{_number(box.y + box.height / 2)}" r="5"/>'


def _conditional(box: Box) -> Iterator[str]:
    left, right, middle = box.x, box.x + box.width, box.y + box.height / 2
    yield _polygon(
        (left, middle),
        (left + 16, box.y),
        (right - 16, box.y),
        (right, middle),
        (right - 16, box.bottom),
        (left + 16, box.bottom),
    )


def _fan_out(box: Box) -> Iterator[str]:
    for step in (2 * STACK, STACK, 0):
        yield _rectangle(box.x + step, box.y + step, box.width - 2 * STACK, box.height - 2 * STACK)


def _fan_in(box: Box) -> Iterator[str]:
    right = box.x + box.width
    yield _polygon((box.x, box.y), (right, box.y), (right - 18, box.bottom), (box.x + 18, box.bottom))


def _gate(box: Box) -> Iterator[str]:
    yield _rectangle(box.x, box.y, box.width, box.height, 2)
    yield _bars(box, box.x + 7, box.x + box.width - 7)


def _wait(box: Box) -> Iterator[str]:
    yield _rectangle(box.x, box.y, box.width, box.height, box.height / 2)


def _workflow(box: Box) -> Iterator[str]:
    yield _rectangle(box.x, box.y, box.width, box.height)
    yield _rectangle(box.x + 4, box.y + 4, box.width - 8, box.height - 8, 4)


_SHAPES: dict[str, Callable[[Box], Iterator[str]]] = {
    "task": _task,
    "start": _start,
    "end": _end,
    "conditional": _conditional,
    "fan_out": _fan_out,
    "fan_in": _fan_in,
    "gate": _gate,
    "wait": _wait,
    "workflow": _workflow,
}
