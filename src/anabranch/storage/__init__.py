"""Addresses, tiers, uploads and large results: where files are, behind a port."""
