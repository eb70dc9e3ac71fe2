"""Strategies that measure the residuals of marginals."""
