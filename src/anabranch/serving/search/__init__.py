"""What callers search the catalog for, checked before a parser of others or the database sees it."""
