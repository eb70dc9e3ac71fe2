"""Factorization norms as CVXPY programs: the readable statement, solved and repaired."""

from pmldesign_solvers import face

__getattr__ = face(__name__, {"programs": "ProgramError"})
