"""Many vector files that are published by one job, all or none."""
