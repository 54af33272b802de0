"""Files in the tiers: staged on this machine, and listed."""

PLUGIN_MODULES = ("handlers",)
