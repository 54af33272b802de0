"""STAC: items and collections, built and validated here, published from our own tables."""

PLUGIN_MODULES = ("handlers", "actions", "ingest.handlers", "exports.handlers")
