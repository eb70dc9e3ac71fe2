"""Strategies that have a name: trees, wavelets, the queries themselves."""
