"""The answers of the HTTP API: the API returns them, the clients read them and the commands print them."""
