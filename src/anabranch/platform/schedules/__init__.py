"""The schedules of platforms, and those that workflow files declare."""
