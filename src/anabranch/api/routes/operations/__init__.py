"""Routes for operators: health, metrics, workers, limits and the database."""
