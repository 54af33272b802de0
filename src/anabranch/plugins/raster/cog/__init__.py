"""Writes Cloud-Optimized GeoTIFFs, and verifies them against their source."""
