"""Running sums released online, a step at a time (docs/background/streams.md).

encoder      y_t = (C x)_t + noise on a grid, exactly
rows         C x in integers, C^-1 y in floating point; many steps at once
recurrences  how a stream goes through C, and its memory of the past
sums         the answers A C^-1 y
on_line      online strategies: C, its distances, its answers; also given a public total
noise        the source of the noise, which belongs to one process: forks and copies are refused
stream       all together, with standard deviations
training     vectors in floating point, and their noise by itself
endless_strategy, endless_steps  running sums of an unbounded stream, `prefix:inf`
lines        the lines of input: numbers, events, corrections
journal      takes steps of a stream durably, and records corrected steps
log          the files: the state, and the witness that refuses an old one
"""

from pmldesign.streams.noise import DiscreteGaussian as DiscreteGaussian
from pmldesign.streams.noise import FloatingGaussian as FloatingGaussian
from pmldesign.streams.noise import GridNoise as GridNoise
from pmldesign.streams.noise import grid_noise as grid_noise
from pmldesign.streams.stream import Stream as Stream
from pmldesign.streams.training import CorrelatedNoise as CorrelatedNoise
from pmldesign.streams.training import VectorStream as VectorStream
from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "encoder": "Encoder dyadic",
        "endless_steps": "Endless certified_ratios endless_stream",
        "endless_strategy": "EndlessStrategy least_deviations",
        "journal": "Corrections Journal",
        "lines": "Given Lines",
        "log": "Log",
        "on_line": "BesideTotal Designed OnLine on_line_of",
        "recurrences": "lower_triangular",
        "rows": "COEFFICIENT_BITS INPUT_BITS KEPT_BITS",
        "training": "CountedNormal",
        "sums": "Sums question_of require_resumable",
    },
)
