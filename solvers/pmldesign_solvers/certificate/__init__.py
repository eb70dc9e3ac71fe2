"""Both bounds on a factorization norm, recomputed from a solver's output alone."""
