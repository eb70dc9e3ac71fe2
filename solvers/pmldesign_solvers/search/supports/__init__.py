"""Which tables of a domain to measure under Laplace noise, and how much of each."""
