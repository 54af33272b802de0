"""Objects in storage, as the database knows them."""
