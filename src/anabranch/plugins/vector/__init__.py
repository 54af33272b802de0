"""Vectors: read files of any format, clean them, and load them into PostGIS."""

PLUGIN_MODULES = ("handlers",)
