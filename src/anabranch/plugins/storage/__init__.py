"""Files in the tiers: staged on this machine, listed, and counted."""

PLUGIN_MODULES = ("handlers", "inventory")
