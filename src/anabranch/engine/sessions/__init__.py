"""The lease of a process: its heartbeat, what it holds, and what wakes it."""
