"""The catalog that STAC servers read: transactions that change it, its items, and making it again."""
