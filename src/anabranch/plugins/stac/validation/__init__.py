"""Validation of STAC documents against their schemas."""
