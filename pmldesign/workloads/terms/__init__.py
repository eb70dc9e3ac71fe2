"""Workloads over attributes: one class, its constructors, and what its terms tell."""
