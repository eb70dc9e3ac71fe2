"""Workloads beside queries whose answers are public."""
