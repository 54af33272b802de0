"""A layout as text: boxes and lines for a terminal, or a list of nodes where a drawing would be too wide."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from textwrap import dedent, wrap

from anabranch.workflows.drawing.grid import Grid
from anabranch.workflows.drawing.layout import Layout, Vertex
from anabranch.workflows.drawing.measure import clean, columns, fit
from anabranch.workflows.drawing.place import place
from anabranch.workflows.drawing.tracks import Bundle, assign, bundle

__all__ = ["MARKS", "to_text"]

WIDEST = 100
LONGEST = 28
DEEPEST_INDENT = 10
MARKS = {
    "completed": "✓", "failed": "✗", "running": "▸", "waiting": "…", "pending": "·", "skipped": "-", "cancelled": "⊘",
}  # fmt: skip
SIGNS = {
    "start": "●",
    "end": "◉",
    "conditional": "◇",
    "fan_out": "⇉",
    "fan_in": "⇥",
    "gate": "‖",
    "wait": "◷",
    "workflow": "▣",
}
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LINES = {
    UP | DOWN: "│",
    LEFT | RIGHT: "─",
    DOWN | RIGHT: "┌",
    DOWN | LEFT: "┐",
    UP | RIGHT: "└",
    UP | LEFT: "┘",
    UP | DOWN | RIGHT: "├",
    UP | DOWN | LEFT: "┤",
    DOWN | LEFT | RIGHT: "┬",
    UP | LEFT | RIGHT: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
}


def to_text(layout: Layout, states: Mapping[str, str] = {}) -> str:
    """The drawing, at most 100 columns wide; a graph that needs more is a list of its nodes and what follows each."""
    words = [_words(box.vertex, states.get(box.vertex.id, "")) for box in layout.boxes]
    labels = {
        slot: _short(route.edge.label)
        for slot, route in zip(layout.grid.labels, layout.routes, strict=True)
        if slot is not None
    }
    widths = _widths(layout.grid, words, labels)
    if any(sum(widths[item] for item in row) > WIDEST for row in layout.grid.rows):
        return _list(layout, words)
    middle = {item: int(x) for item, x in enumerate(place(layout.grid, widths))}
    if any(middle[item] + widths[item] // 2 > WIDEST for item in middle):
        return _list(layout, words)
    return _Page(layout.grid, middle, widths, words, labels).draw() or _list(layout, words)


def _words(vertex: Vertex, state: str) -> list[str]:
    parts = (MARKS.get(state, ""), SIGNS.get(vertex.kind, ""), _short(vertex.label) or _short(vertex.id))
    return [" ".join(part for part in parts if part), *filter(None, [_short(vertex.note)])]


def _short(text: str) -> str:
    return fit(clean(text).strip(), LONGEST, columns)


def _widths(grid: Grid, words: list[list[str]], labels: Mapping[int, str]) -> list[int]:
    # Odd, so that every item has a middle column; boxes and labels keep one column free on either side.
    boxes = [max(*map(columns, lines), 2 * len(grid.above[item])) + 4 | 1 for item, lines in enumerate(words)]
    slots = [columns(labels[slot]) | 1 if slot in labels else -1 for slot in range(grid.vertices, grid.size)]
    return [width + 2 for width in boxes + slots]


def _list(layout: Layout, words: list[list[str]]) -> str:
    follow: dict[str, list[str]] = {}
    names = {box.vertex.id: _short(box.vertex.label) for box in layout.boxes}
    for route in layout.routes:
        label = _short(route.edge.label)
        follow.setdefault(route.edge.tail, []).append(names[route.edge.head] + (f" ({label})" if label else ""))
    lines = []
    depth = 0
    for row in layout.grid.rows:
        shown = [item for item in row if item < layout.grid.vertices]
        for item in shown:
            after = ", ".join(follow.get(layout.boxes[item].vertex.id, ()))
            indent = "  " * min(depth, DEEPEST_INDENT)
            lines += _wrap(indent, words[item][0] + (f" → {after}" if after else ""))
        depth += bool(shown)
    return "".join(f"{line}\n" for line in lines)


def _wrap(indent: str, text: str) -> list[str]:
    following = f"{indent}    "
    return wrap(
        text, WIDEST, initial_indent=indent, subsequent_indent=following, break_long_words=False, break_on_hyphens=False
    )


class _Page:
    """A sheet of characters on which the rows are drawn from top to bottom."""

    def __init__(
        self, grid: Grid, middle: dict[int, int], widths: list[int], words: list[list[str]], labels: Mapping[int, str]
    ) -> None:
        self.grid, self.middle, self.widths, self.words, self.labels = grid, middle, widths, words, labels
        self.lines: list[list[str]] = []

    def draw(self) -> str | None:
        """The page; nothing when some lines would have to run over each other."""
        for row, after in pairwise((*self.grid.rows, ())):
            self._draw_row(row)
            bundles = bundle(((item, self.grid.below[item]) for item in row), self.middle, self.grid.vertices)
            tracks = assign(bundles)
            if tracks is None:
                return None
            self._draw_gap(bundles, tracks, after)
        return dedent("".join("".join(line).rstrip() + "\n" for line in self.lines))

    def _draw_row(self, row: tuple[int, ...]) -> None:
        boxes = [item for item in row if item < self.grid.vertices]
        inside = max((len(self.words[item]) for item in boxes), default=0)
        top = self._add(inside + 2 if boxes else 1)
        for item in row:
            if item < self.grid.vertices:
                self._outline(item, top, inside)
            elif item in self.labels:
                self._write(top, self.middle[item] - columns(self.labels[item]) // 2, self.labels[item])
            else:
                for line in range(top, len(self.lines)):
                    self._write(line, self.middle[item], "│")

    def _outline(self, item: int, top: int, inside: int) -> None:
        half = (self.widths[item] - 3) // 2
        left, across = self.middle[item] - half, "─" * (2 * half - 1)
        self._write(top, left, f"┌{across}┐")
        for line in range(inside):
            text = self.words[item][line] if line < len(self.words[item]) else ""
            self._write(top + 1 + line, left, "│" + " " * len(across) + "│")
            self._write(top + 1 + line, self.middle[item] - columns(text) // 2, text)
        self._write(top + 1 + inside, left, f"└{across}┘")
        if self.grid.below[item]:
            self._write(top + 1 + inside, self.middle[item], "┬")

    def _draw_gap(self, bundles: list[Bundle], tracks: Mapping[Bundle, int], after: Sequence[int]) -> None:
        top = self._add(max(tracks.values(), default=-1) + 1)
        for one in bundles:
            for column, line, arms in _strokes(one, tracks.get(one, -1), len(self.lines) - top):
                # A line that goes down passes over one that goes across.
                if self.lines[top + line][column] in (" ", "─") or arms != LEFT | RIGHT:
                    self._write(top + line, column, LINES[arms])
        if any(item < self.grid.vertices for item in after):
            last = self._add(1)
            slots = {self.middle[item] for item in after if item >= self.grid.vertices}
            for column in (column for one in bundles for column in one.heads):
                self._write(last, column, "│" if column in slots else "▼")

    def _add(self, count: int) -> int:
        width = max(self.middle[item] + self.widths[item] for item in self.middle)
        self.lines += [[" "] * (width + 1) for _ in range(count)]
        return len(self.lines) - count

    def _write(self, line: int, column: int, text: str) -> None:
        for character in text:
            wide = columns(character)
            if wide == 0:
                self.lines[line][column - 1] += character
                continue
            self.lines[line][column : column + wide] = [character, ""][:wide]
            column += wide


def _strokes(one: Bundle, track: int, rows: int) -> Iterator[tuple[int, int, int]]:
    """The cells of a bundle's line: column, line of the gap, and the arms it has there."""
    if one.straight:
        yield from ((one.left, line, UP | DOWN) for line in range(rows))
        return
    for column in one.tails:
        yield from ((column, line, UP | DOWN) for line in range(track))
    for column in one.heads:
        yield from ((column, line, UP | DOWN) for line in range(track + 1, rows))
    for column in range(one.left, one.right + 1):
        arms = (UP if column in one.tails else 0) | (DOWN if column in one.heads else 0)
        arms |= (LEFT if column > one.left else 0) | (RIGHT if column < one.right else 0)
        yield column, track, arms
