"""Serves what is published: a STAC API, tiles and files, as applications under the paths of the API."""
