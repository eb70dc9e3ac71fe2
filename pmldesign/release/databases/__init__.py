"""People who are counted where they are: a query for their database, and what it returned."""
