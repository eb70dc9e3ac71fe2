"""Noisy measurements that are kept: further questions, several releases, synthetic data."""
