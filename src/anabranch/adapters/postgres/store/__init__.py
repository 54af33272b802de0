"""Reads and changes the schema's data by its functions and queries."""
