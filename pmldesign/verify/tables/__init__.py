"""Claims of strategies for tables: what they measure, and what dual weights prove of them."""
