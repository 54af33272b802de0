"""OGC API Features and vector tiles of published layers."""
