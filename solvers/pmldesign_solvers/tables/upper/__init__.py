"""What a strategy for tables is worth: its variances and its longest column, certified."""
