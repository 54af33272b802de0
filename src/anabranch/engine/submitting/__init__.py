"""From a caller's request to a stored job."""
