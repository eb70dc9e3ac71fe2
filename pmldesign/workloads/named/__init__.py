"""Workloads that have a name."""
