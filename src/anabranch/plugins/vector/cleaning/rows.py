"""The rows of a batch that are left while it is cleaned."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from anabranch.plugins.vector.models import MAX_SAMPLES, Notes

if TYPE_CHECKING:
    import numpy.typing as npt

    from anabranch.plugins.vector.models import Geometries
    from anabranch.plugins.vector.models import Rows as Numbers

    Mask = npt.NDArray[np.bool_]

__all__ = ["Describe", "Rows"]

Describe = Callable[[int], str]


class Rows:
    """Rows that are left: their numbers in the source, their places in the batch, and their geometries."""

    def __init__(self, numbers: "Numbers", geometry: "Geometries", dropped: Notes) -> None:
        self.numbers = numbers
        self.places = np.arange(len(numbers))
        self.geometry = geometry
        self._dropped = dropped
        self._changes: list[tuple[str, Numbers, Numbers, Describe | None]] = []

    def __len__(self) -> int:
        return len(self.numbers)

    def drop(self, mask: "Mask", why: str, describe: Describe | None = None) -> "Mask":
        """Drop and note rows; which are left of those before. `describe` says more of the row at a place."""
        if mask.any():
            self._dropped.add(why, self.numbers[mask], _sample(np.flatnonzero(mask), describe))
            self.numbers, self.places, self.geometry = self.numbers[~mask], self.places[~mask], self.geometry[~mask]
        return ~mask

    def change(self, mask: "Mask", what: str, describe: Describe | None = None) -> None:
        """Note that rows were changed; those that are dropped later don't count.

        `describe` says more of the row at a place; it is called when all steps are done.
        """
        if mask.any():
            self._changes.append((what, self.numbers[mask], np.flatnonzero(mask), describe))

    def were_changed(self, *whats: str) -> "Mask":
        """Which rows were changed in one of these ways."""
        found = [numbers for what, numbers, _, _ in self._changes if what in whats]
        return np.isin(self.numbers, np.concatenate(found)) if found else np.zeros(len(self), bool)

    def note_changes(self, changed: Notes) -> None:
        """Note the changes of the rows that are left."""
        for what, numbers, places, describe in self._changes:
            left = np.isin(numbers, self.numbers)
            changed.add(what, numbers[left], _sample(places[left], describe))


def _sample(places: "Numbers", describe: Describe | None) -> list[str]:
    return [describe(int(place)) for place in places[:MAX_SAMPLES]] if describe else []
