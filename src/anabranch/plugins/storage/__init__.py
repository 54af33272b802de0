"""Files in the tiers: brought to this machine, and listed."""

PLUGIN_MODULES = ("handlers",)
