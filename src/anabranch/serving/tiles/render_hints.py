"""Render hints of an item, in the fields of STAC's render extension."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, field_validator
from rio_tiler.colormap import cmap
from rio_tiler.types import RIOResampling

from anabranch.serving.tiles.assets import Rasters
from anabranch.serving.tiles.colormap import check_colormap

__all__ = ["STYLE_PARAMETERS", "RenderHints", "hints_of"]

log = structlog.get_logger()

MAX_COLORMAP_CHARS = 8192
# Where the caller gives one of them, no hints apply.
STYLE_PARAMETERS = frozenset({"bidx", "rescale", "colormap", "colormap_name", "color_formula"})


class RenderHints(BaseModel):
    """One way to draw an item; other fields of the extension are ignored."""

    model_config = ConfigDict(frozen=True)

    assets: list[str] = []
    bidx: list[Annotated[int, Field(ge=1)]] | None = Field(None, max_length=64)
    rescale: list[tuple[FiniteFloat, FiniteFloat]] | None = Field(None, max_length=64)
    colormap_name: str | None = None
    colormap: dict[str, Any] | list[Any] | None = None  # by value or interval, in the renderer's notation
    color_formula: str | None = Field(None, max_length=256)
    resampling: RIOResampling | None = None
    nodata: FiniteFloat | Literal["nan", "inf", "-inf"] | None = None
    expression: None = None  # expressions are not evaluated (S2), and the other hints would apply to their values

    @field_validator("colormap_name")
    @classmethod
    def _check_name(cls, name: str | None) -> str | None:
        if name is not None and name not in cmap.list():
            raise ValueError("unknown colormap")
        return name

    @field_validator("colormap")
    @classmethod
    def _check_colors(cls, colors: Any) -> Any:  # any JSON
        if len(json.dumps(colors)) > MAX_COLORMAP_CHARS:
            raise ValueError("it has too many colors")
        if colors is not None:
            check_colormap(colors)
        return colors

    def asset(self) -> list[tuple[str, str]]:
        """The query parameter for the raster that they are for, if they name it."""
        return [("asset", self.assets[0])] if self.assets else []

    def queries(self) -> Iterator[tuple[str, str]]:
        """The query parameters that draw it this way."""
        colored = self.colormap_name is not None or self.colormap is not None
        # A colormap applies to the values of one band.
        yield from (("bidx", str(band)) for band in self.bidx or ([1] if colored else []))
        yield from (("rescale", f"{low!r},{high!r}") for low, high in self.rescale or ())
        for name in ("colormap_name", "color_formula", "resampling", "nodata"):
            if (value := getattr(self, name)) is not None:
                yield name, str(value)
        if self.colormap is not None:
            yield "colormap", json.dumps(self.colormap)


def hints_of(rasters: Rasters, item: str, asset: str | None) -> RenderHints | None:
    """The hints for an asset of an item, or for the one that they are for; None where there are no valid ones."""
    hints = _read(rasters.renders, item)
    if hints is None or not rasters.addresses:
        return None
    meant = hints.assets[0] if hints.assets else next(iter(rasters.addresses))
    # Hints for one raster don't apply to another.
    return hints if meant in rasters.addresses and (meant if asset is None else asset) == meant else None


def _read(renders: object, item: str) -> RenderHints | None:
    """The default render of an item, or the first."""
    if not isinstance(renders, dict) or not renders:
        return None
    try:
        return RenderHints.model_validate(renders.get("default") or next(iter(renders.values())))
    except ValidationError as error:
        log.warning("renders.unusable", item=item, reason=str(error))
        return None
