"""Workflows in YAML: `load` reads them, `write` prints them; `tree` and `scalars` parse the text."""
