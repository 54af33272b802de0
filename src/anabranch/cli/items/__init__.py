"""Commands about what is published."""
