"""The engine's own benchmark: real processes, durable settings, and a bare loop to compare with."""
