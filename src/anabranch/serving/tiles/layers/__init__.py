"""Many items drawn as one layer: a whole collection, or what a search finds."""
