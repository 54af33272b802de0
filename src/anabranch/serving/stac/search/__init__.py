"""Checks searches of the catalog, before third-party parsers or the database see them."""
