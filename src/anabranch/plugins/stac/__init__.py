"""STAC: items and collections, built and checked by us, published from our own rows."""

PLUGIN_MODULES = ("handlers",)
