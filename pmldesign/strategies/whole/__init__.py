"""Strategies in whole numbers, which noise can be drawn on exactly."""
