"""What a COG is published with: footprint, thumbnail, grid and the facts of its STAC item."""
