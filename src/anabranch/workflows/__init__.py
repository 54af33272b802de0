"""The language of workflows: what is declared in YAML or Python, checked, drawn, and pinned to jobs."""
