"""Rasters: inspect and validate them, and write them as Cloud-Optimized GeoTIFFs."""

PLUGIN_MODULES = ("handlers", "tiles.handlers", "collections.handlers")
