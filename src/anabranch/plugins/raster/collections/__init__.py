"""Many rasters that are published together, all or none."""
