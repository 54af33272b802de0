"""What this process measures and how health is judged."""
