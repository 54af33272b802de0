"""Published collections as files: a static catalog, and its items as stac-geoparquet (decision 033)."""
