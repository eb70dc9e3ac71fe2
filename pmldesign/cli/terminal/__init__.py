"""The terminal: signals and streams, numbers and tables, completion of words."""
