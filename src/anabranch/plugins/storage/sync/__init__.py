"""A folder and what is published of it: compared, and reported."""
