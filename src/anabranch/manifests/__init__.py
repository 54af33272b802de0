"""What was published, made from what and by what: statements in the in-toto format, signed by the installation."""
