"""Strategies for cube noise."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "search": "CubeProblem rank_of solve",
    },
)
