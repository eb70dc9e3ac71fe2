"""Queries that count more than others."""
