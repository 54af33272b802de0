"""Streams: events of jobs, and NDJSON line by line."""
