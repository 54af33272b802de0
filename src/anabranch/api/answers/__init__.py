"""How answers are made: problems, compression, ETags, HEAD, and the description of the API."""
