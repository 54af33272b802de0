"""What the engine, the API and operators read and change, by the functions and queries of the schema."""
