"""The settings of H3."""

from pydantic import Field

from anabranch.strict_model import StrictModel

__all__ = ["H3Settings"]


class H3Settings(StrictModel):
    """Limits of grids of cells."""

    h3_max_cells: int = Field(20_000_000, ge=1, description="The largest number of cells that one job makes.")
    h3_task_cells: int = Field(100_000, ge=7, le=2_000_000, description="About how many cells one task makes.")
