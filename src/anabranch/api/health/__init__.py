"""Metrics of this process, and the health of the stack."""
