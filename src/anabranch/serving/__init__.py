"""What is published, to be read: a STAC API, tiles and files; the applications that the API holds under its paths."""
