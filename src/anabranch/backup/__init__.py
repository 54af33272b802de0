"""Backups: an installation's database and tiers, consistent, in a folder."""
