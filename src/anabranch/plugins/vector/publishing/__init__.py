"""What layers are published with, and layers that jobs compute."""
