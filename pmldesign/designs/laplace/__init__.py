"""The search for Laplace noise: candidates, the order in which they are tried, and its course."""
