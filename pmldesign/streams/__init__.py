"""Running sums released on line, a step at a time (docs/streams.md).

encoder   y_t = (C x)_t + noise on a grid, exactly
whole     C x in whole numbers; digits cuts them so that many steps are made at once
decoding  C^-1 y in floating point; rows has what both share
sums      the answers A C^-1 y
on_line   what goes on line: C, its distances, what it answers
beside_total  likewise where the total is public, under replace
series    several series that are measured alike
noise     where the noise comes from
stream    all together, with standard deviations
training  vectors in floating point, and their noise alone
endless   running sums without an end
owned     noise belongs to one process: forks and copies are refused
durable   the saved state, and the log that refuses to use it twice
"""

from pmldesign.streams.noise import DiscreteGaussian as DiscreteGaussian
from pmldesign.streams.noise import FloatingGaussian as FloatingGaussian
from pmldesign.streams.noise import GridNoise as GridNoise
from pmldesign.streams.noise import grid_noise as grid_noise
from pmldesign.streams.stream import Stream as Stream
from pmldesign.streams.training.correlated import CorrelatedNoise as CorrelatedNoise
from pmldesign.streams.training.vectors import VectorStream as VectorStream
from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "beside_total": "BesideTotal on_line_of",
        "digits": "COEFFICIENT_BITS INPUT_BITS KEPT_BITS",
        "durable.journal": "Corrections Journal",
        "durable.lines": "Given Lines",
        "durable.log": "Log",
        "encoder": "Encoder dyadic",
        "endless.errors": "least_deviations",
        "endless.steps": "certified_ratios",
        "endless.strategy": "EndlessStrategy",
        "endless.stream": "Endless endless_stream",
        "on_line": "Designed OnLine",
        "recurrences": "lower_triangular",
        "sums": "Sums question_of require_resumable",
    },
)
