"""Files in the tiers: staged on this machine, listed, counted, and compared with what is published."""

PLUGIN_MODULES = ("handlers", "inventory", "sync.handlers")
