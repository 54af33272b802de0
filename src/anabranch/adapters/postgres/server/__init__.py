"""How a server is reached: the URL with its other ways, its passwords, and connections."""
