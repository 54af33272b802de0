"""The settings of the plugin."""

from pydantic import BaseModel, Field

__all__ = ["GeohashSettings"]


class GeohashSettings(BaseModel):
    """How precise geohashes are."""

    geohash_length: int = Field(6, ge=1, le=12, description="The number of characters of a geohash.")
