"""Calls to addresses that callers name: checked before and at the connection, and bounded (S3)."""
