"""Drawings of workflows within a page: the layout that all drawings have, with links and the tasks of wide nodes."""

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from anabranch.contract.jobs import TaskCounts
from anabranch.workflows.drawing import Box, Layout, to_svg

__all__ = ["draw_graph"]

BAR_HEIGHT, BAR_INSET = 5.0, 8.0
# In the order in which a bar shows them, with the kind of colour of each.
SEGMENTS = (
    ("completed", "good"),
    ("failed", "bad"),
    ("running", "live"),
    ("due", "wait"),
    ("ready", "quiet"),
    ("cancelled", "quiet"),
)


def draw_graph(
    layout: Layout,
    *,
    title: str,
    states: Mapping[str, str] = {},
    tasks: Mapping[str, TaskCounts] = {},
    target: Callable[[str], str] | None = None,
) -> Markup:
    """The drawing as SVG that takes its colours from the page; a node with several tasks has a bar of their states."""
    drawn = to_svg(layout, states, styled=False, title=title).strip().removesuffix("</svg>")
    if target:  # a picture has no links in it
        drawn = drawn.replace('role="img"', 'role="group"', 1)
    over = [_draw_over(box, states.get(box.vertex.id, ""), tasks.get(box.vertex.id), target) for box in layout.boxes]
    return Markup(drawn) + Markup("").join(over) + Markup("</svg>")  # noqa: S704  # to_svg escapes all that it is given


def _draw_over(box: Box, state: str, counts: TaskCounts | None, target: Callable[[str], str] | None) -> Markup:
    said = _spell(counts) if counts and counts.total > 1 else ""
    bar = _draw_bar(box, counts) if counts and counts.total > 1 else Markup("")
    if target is None:
        return bar
    name = box.vertex.label
    label = ", ".join(filter(None, (name, state, said)))
    hit = Markup('<rect class="hit" x="{}" y="{}" width="{}" height="{}" rx="7"/>').format(
        box.x, box.y, box.width, box.height
    )
    return Markup('<a href="{}" aria-label="{}" data-node-link="{}"><title>{}</title>{}{}</a>').format(
        target(box.vertex.id), label, box.vertex.id, label, hit, bar
    )


def _draw_bar(box: Box, counts: TaskCounts) -> Markup:
    left, width, top = box.x + BAR_INSET, box.width - 2 * BAR_INSET, box.bottom - BAR_HEIGHT - 3
    piece = Markup('<rect class="{}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{}"/>')
    parts = [piece.format("rest", left, top, width, BAR_HEIGHT)]
    for name, kind in SEGMENTS:
        share = width * getattr(counts, name) / counts.total
        if share:
            parts.append(piece.format(kind, left, top, share, BAR_HEIGHT))
        left += share
    return Markup('<g class="bar">{}</g>').format(Markup("").join(parts))


def _spell(counts: TaskCounts) -> str:
    parts: Sequence[str] = [f"{getattr(counts, name):,} {name}" for name, _ in SEGMENTS if getattr(counts, name)]
    return f"{counts.total:,} tasks: {', '.join(parts)}" if parts else f"{counts.total:,} tasks"
