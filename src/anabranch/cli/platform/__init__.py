"""Commands of platforms: orders, releases, decisions, keys and webhooks."""
