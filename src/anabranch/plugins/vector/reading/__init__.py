"""Opening untrusted vector files: formats, archives, layers, and their rows in batches."""
