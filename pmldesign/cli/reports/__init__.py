"""What commands print about designs and comparisons."""
