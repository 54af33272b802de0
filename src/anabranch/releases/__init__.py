"""Releases of partners: orders and decisions on them, and what a reviewer sees before."""
