"""Edges between two rows of text: each bundle gets a track, so that no two lines can be taken for one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Bundle", "assign", "bundle"]

NUDGE = 2  # a box is wide enough for its ports and this much to either side


@dataclass(frozen=True)
class Bundle:
    """Edges drawn as one line because every tail goes to every head; columns say where it leaves and arrives."""

    tails: tuple[int, ...]
    heads: tuple[int, ...]

    @property
    def straight(self) -> bool:
        return self.tails == self.heads and len(self.tails) == 1

    @property
    def left(self) -> int:
        return min(self.tails + self.heads)

    @property
    def right(self) -> int:
        return max(self.tails + self.heads)


def bundle(below: Iterable[tuple[int, tuple[int, ...]]], middle: Mapping[int, int], vertices: int) -> list[Bundle]:
    """The bundles of a gap: tails with the same heads share one. A head has a port of its own for each bundle."""
    tails_of: dict[frozenset[int], list[int]] = {}
    for tail, followers in below:
        if followers:
            tails_of.setdefault(frozenset(followers), []).append(tail)
    groups = sorted(tails_of.items(), key=lambda group: sum(middle[tail] for tail in group[1]) / len(group[1]))
    arrivals: dict[int, list[list[int]]] = {}
    for heads, tails in groups:
        for head in heads:
            arrivals.setdefault(head, []).append([middle[tail] for tail in tails])
    ports = {
        head: iter(_ports(middle[head], columns) if head < vertices else [middle[head]])
        for head, columns in arrivals.items()
    }
    return [
        Bundle(tuple(middle[tail] for tail in tails), tuple(sorted(next(ports[head]) for head in heads)))
        for heads, tails in groups
    ]


def _ports(middle: int, arrivals: Sequence[Sequence[int]]) -> list[int]:
    """A column for each bundle that arrives, two apart; moved a little where that lets a line run straight."""
    ports = [middle + 2 * index - len(arrivals) + 1 for index in range(len(arrivals))]
    moves = [tails[0] - port for tails, port in zip(arrivals, ports, strict=True) if len(tails) == 1]
    move = min(moves, key=abs, default=0)
    return [port + move for port in ports] if abs(move) <= NUDGE else ports


def assign(bundles: Sequence[Bundle]) -> dict[Bundle, int] | None:
    """A track for each bundle, from the top; nothing when their lines would have to run over each other."""
    waiting = [bundle for bundle in bundles if not bundle.straight]
    tracks: dict[Bundle, int] = {}
    while waiting:
        free = next((one for one in waiting if not any(_is_under(one, other) for other in waiting)), None)
        if free is None:
            return None
        waiting.remove(free)
        over = [track for other, track in tracks.items() if _is_under(free, other) or _overlaps(free, other)]
        tracks[free] = max(over, default=-1) + 1
    return tracks


def _is_under(one: Bundle, other: Bundle) -> bool:
    # Where one bundle's line goes down from the middle, another's has come down from the top and must have turned.
    return one != other and not set(one.heads).isdisjoint(other.tails)


def _overlaps(one: Bundle, other: Bundle) -> bool:
    return one.left <= other.right and other.left <= one.right
