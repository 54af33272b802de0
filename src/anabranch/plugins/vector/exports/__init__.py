"""Files of published tables: rows that PostgreSQL wrote, in formats that others read."""
