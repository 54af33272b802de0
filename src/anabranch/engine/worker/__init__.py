"""What claims tasks, runs their handlers and reports how that went."""
