"""What is taken from a file that is no plain GeoTIFF, and what was taken; nothing here imports GDAL."""

from anabranch.geo.sidecar_names import SidecarKind
from anabranch.plugins.raster.models import Notice, Origin, Sidecar, Times
from anabranch.strict_model import StrictModel

__all__ = ["Choice", "Extracted", "ListParams", "TimeSteps", "UsedSidecars"]


class Choice(StrictModel):
    """The caller's choice among the contents of a file."""

    variable: str | None = None
    time: str | None = None
    input_crs: str | None = None
    sidecars: tuple[Sidecar, ...] = ()


class Extracted(StrictModel):
    """The GeoTIFF of a choice: its file name, empty where the source itself is it; and what it was made from."""

    file: str = ""
    origin: Origin | None = None
    times: Times | None = None
    temporal: bool = False
    notices: tuple[Notice, ...] = ()


class UsedSidecars(StrictModel):
    """The kinds of sidecars that add something to a raster, and notices of those that don't."""

    kinds: tuple[SidecarKind, ...] = ()
    notices: tuple[Notice, ...] = ()


class ListParams(StrictModel):
    """A staged file, and the variable of it."""

    source: str
    sha256: str
    variable: str | None = None


class TimeSteps(StrictModel):
    """The time steps of a variable, as `time` of a raster takes them."""

    variable: str
    times: tuple[str, ...]
