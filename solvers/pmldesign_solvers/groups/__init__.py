"""gamma_(p) where the numbers of records in groups of cells are public."""
