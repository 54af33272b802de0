"""The child processes that run handlers."""
