"""OGC API - Processes: workflows and jobs as that standard names and writes them."""
