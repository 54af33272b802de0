"""Small workflows to learn from."""
