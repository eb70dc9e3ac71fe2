"""Strategies side by side: what each costs in error, over workloads, p and guarantees."""
