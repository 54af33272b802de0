"""Published items and their files."""
