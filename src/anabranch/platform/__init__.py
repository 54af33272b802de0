"""The business state beside the engine: what partner systems ask for, and how they are notified."""
