"""Rasters: inspect and validate them, and write them as Cloud-Optimized GeoTIFFs."""

PLUGIN_MODULES = ("handlers", "item.in_place", "tiles.handlers", "collections.handlers")
