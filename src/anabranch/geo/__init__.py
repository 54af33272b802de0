"""Geometry of rasters on the globe, for raster, stac and serving (decision 019)."""
