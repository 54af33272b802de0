"""Cleaning of rows: pure functions over arrays, each with a report of what it changed or dropped."""
