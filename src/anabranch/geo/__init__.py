"""Geometry of rasters on the globe, and their alpha values, for raster, stac and serving (decision 019)."""
