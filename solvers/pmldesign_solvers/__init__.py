"""Certified solvers for factorization norms: arrays in, arrays out, nothing about privacy."""
