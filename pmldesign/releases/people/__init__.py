"""From people to a histogram: the schema, the file, and queries by the names of attributes."""
