"""H3: grids of cells, and statistics of rasters in them."""

PLUGIN_MODULES = ("handlers", "base")
