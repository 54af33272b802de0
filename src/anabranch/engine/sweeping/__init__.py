"""What the orchestrator does by the clock: work of dead sessions, timeouts, retention."""
