"""Makes the jobs of schedules."""
