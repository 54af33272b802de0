"""Tokens of an OpenID Connect issuer: its settings, its public keys, and who the bearer of a token is."""
