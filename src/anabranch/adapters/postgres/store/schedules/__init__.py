"""Schedules, in schema app."""
