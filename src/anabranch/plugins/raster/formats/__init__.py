"""Files that are no plain GeoTIFF: archives, files of many variables, pictures, and sidecars; one becomes a GeoTIFF."""
