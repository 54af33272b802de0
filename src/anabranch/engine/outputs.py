"""Parts of nodes' outputs, as expressions name them."""

import asyncio

from anabranch.engine.canonical import Json
from anabranch.engine.expressions import Missing, Reference, walk
from anabranch.engine.ports import JobStore, StoredValue
from anabranch.engine.results import REFERENCE, Results
from anabranch.engine.transitions import ABSENT, Absent

__all__ = ["Outputs"]


class Outputs:
    """Looks outputs up in the store, or in the files where large ones were put aside."""

    def __init__(self, store: JobStore, results: Results) -> None:
        """With these parts."""
        self._store = store
        self.results = results

    async def look_up(self, job_id: str, reference: Reference) -> Json | Absent:
        """What a reference stands for; ABSENT when there is no such thing."""
        found = await self._store.node_value(job_id, reference)
        if found is None:
            return ABSENT
        if found.reference is None and found.many is None:
            return found.value
        whole = await asyncio.to_thread(self._whole, found)
        try:
            return walk(whole, reference.path[2:], reference)
        except Missing:
            return ABSENT

    def _whole(self, found: StoredValue) -> Json:
        if found.many is not None:
            return self.results.collect(found.many)
        return self.results.bring_back({REFERENCE: found.reference})
