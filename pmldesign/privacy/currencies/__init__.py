"""Currencies of privacy beside (epsilon, delta): zCDP, Gaussian DP, Renyi DP."""
