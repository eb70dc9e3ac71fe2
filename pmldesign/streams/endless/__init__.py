"""Running sums whose number of steps nobody knows: `prefix:inf` (docs/streams.md).

strategy  C, its epochs, and its sensitivity over infinite columns
errors    standard deviations at any step, and the least that any strategy has there
steps     C and its inverse on line, in 16 numbers each
"""
