"""The web pages: a module for each, which reads what the API's routes read, and a template (decision 046)."""
