"""Opens untrusted rasters and reads their pixels, in bounded memory."""
