"""Tables in PostGIS: column types, rows in the binary COPY format, loading and checking."""
