"""Designs for people who take part in several steps of running sums."""
