"""Running sums released on line, a step at a time (docs/streams.md).

encoder   y_t = (C x)_t + noise on a grid, exactly
decoder   the noisy sums from y, in floating point
noise     where the noise comes from
stream    both together, with standard deviations
journal   the saved state, and the log that refuses to use it twice
"""

from pmldesign.streams.noise import DiscreteGaussian, FloatingGaussian, GridNoise, grid_noise
from pmldesign.streams.stream import Stream, VectorStream

__all__ = [
    "DiscreteGaussian",
    "FloatingGaussian",
    "GridNoise",
    "Stream",
    "VectorStream",
    "grid_noise",
]
