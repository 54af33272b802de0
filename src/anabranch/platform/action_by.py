"""Who acts on assets, releases, items and endpoints."""

from dataclasses import dataclass

from anabranch.enums import Scope

__all__ = ["ALL_PLATFORMS", "ActionBy"]

ALL_PLATFORMS = "*"


@dataclass(frozen=True)
class ActionBy:
    """Who acts, and why; `platform_filter` is the platform whose rows are visible, or all of them.

    `scope` is the scope of the jobs that are submitted.
    """

    platform_filter: str
    actor: str
    reason: str | None
    correlation_id: str
    scope: Scope | None = None

    @property
    def owner(self) -> str | None:
        """The platform that `platform_filter` names; None: it is all of them."""
        return None if self.platform_filter == ALL_PLATFORMS else self.platform_filter
