"""Workloads over attributes: one class, its constructors, and the properties of its terms."""
