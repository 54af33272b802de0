"""Vectors: read files of any format, clean them, load them into PostGIS, and export what is published."""

PLUGIN_MODULES = ("handlers", "exports.handlers", "collections.handlers", "publishing.handlers")
