"""Rasters in tiles, drawn as if each were one COG."""
