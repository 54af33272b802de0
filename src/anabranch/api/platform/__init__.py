"""Platforms over HTTP: orders, releases, decisions, and previews for those who decide."""
