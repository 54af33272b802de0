"""The STAC API over pgstac."""
