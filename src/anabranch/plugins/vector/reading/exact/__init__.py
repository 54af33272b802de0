"""Values that GDAL would change: read by our own code, or as text, exactly."""
