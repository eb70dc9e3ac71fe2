"""Lower bounds for tables: weights of cells that are products over the attributes."""
