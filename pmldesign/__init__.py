"""Optimal private mechanisms for linear query workloads, with a certificate."""
