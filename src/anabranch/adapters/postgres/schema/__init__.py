"""The schema: made by migrations, replaced functions and views, and held against its files."""
