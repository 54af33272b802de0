"""CSV files: their dialect, their geometry columns, the types of the others, and their rows."""
