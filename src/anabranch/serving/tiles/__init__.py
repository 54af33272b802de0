"""Tiles, previews and values of published rasters."""
