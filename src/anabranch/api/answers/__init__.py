"""Responses: problem documents, compression, ETags, HEAD, and the OpenAPI document."""
