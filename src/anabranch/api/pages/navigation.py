"""The pages that the navigation names, in its order; one that does not exist is not there."""

from dataclasses import dataclass

from anabranch.access import Scope

__all__ = ["PLACES", "Place"]


@dataclass(frozen=True)
class Place:
    """A page: its path below the API's root, its name, and the scope without which it is not shown."""

    path: str
    name: str
    scope: Scope = Scope.READ

    def holds(self, path: str) -> bool:
        """Whether a path is this page, or one below it."""
        return path == self.path or (self.path != "/" and path.startswith(f"{self.path}/"))


PLACES = (
    Place("/", "Overview"),
    Place("/submit", "Submit", Scope.SUBMIT),
    Place("/jobs", "Jobs"),
    Place("/approvals", "Approvals"),
    Place("/assets", "Assets"),
    Place("/data", "Data"),
    Place("/workflows", "Workflows"),
    Place("/schedules", "Schedules"),
    Place("/webhooks", "Webhooks"),
    Place("/workers", "Workers", Scope.ADMIN),
    Place("/admin", "Admin"),
    Place("/docs", "API"),
)
