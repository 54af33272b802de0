"""What callers follow while it happens: events of jobs, and long lists line by line."""
