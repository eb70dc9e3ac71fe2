"""Where alpha comes from, and what is left of a guarantee if it is wrong."""
