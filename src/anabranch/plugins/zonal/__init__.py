"""Zonal statistics: a published raster summed up in polygons, by exact fractions of pixels."""

PLUGIN_MODULES = ("handlers",)
