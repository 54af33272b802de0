"""When workflows run by themselves."""
