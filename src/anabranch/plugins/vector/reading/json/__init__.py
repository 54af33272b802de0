"""GeoJSON, lines of it, and TopoJSON: read in blocks, and turned into columns."""
