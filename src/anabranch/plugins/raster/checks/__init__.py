"""Checks whether a raster can be published, and finds out what it is."""
