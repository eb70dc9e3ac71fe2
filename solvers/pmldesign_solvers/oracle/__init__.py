"""Factorization norms as CVXPY programs: the readable statement, solved and repaired."""
