"""The contract: what each route declares, and the one OpenAPI document that is made of it."""
