"""Geohashes: short names for places, of which nearby ones share their beginning."""

PLUGIN_MODULES = ("handlers",)
