"""Makes the jobs of schedules that watch a folder."""
