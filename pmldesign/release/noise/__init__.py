"""Exact noise: strategies of whole numbers, and samplers that draw on them."""
