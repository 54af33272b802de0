"""Rasters: what one is, whether it can be published, and its Cloud-Optimized GeoTIFF."""

PLUGIN_MODULES = ("handlers",)
