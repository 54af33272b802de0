"""Who acts on what belongs to platforms."""

from dataclasses import dataclass

__all__ = ["ALL_PLATFORMS", "ActionBy"]

ALL_PLATFORMS = "*"


@dataclass(frozen=True)
class ActionBy:
    """Who acts, and why; `sight` limits it to what belongs to one platform."""

    sight: str
    actor: str
    reason: str | None
    correlation_id: str

    @property
    def owner(self) -> str | None:
        """The platform that `sight` names; None: it is all of them."""
        return None if self.sight == ALL_PLATFORMS else self.sight
