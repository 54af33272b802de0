"""Commands of platforms: orders, releases and decisions."""
