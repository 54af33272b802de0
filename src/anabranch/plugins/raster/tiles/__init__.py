"""Large rasters: tiles that workers write one by one, and the mosaic that they are."""
