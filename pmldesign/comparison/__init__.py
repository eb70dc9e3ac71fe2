"""Strategies side by side: the error of each, over workloads, p and guarantees."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "comparison": "compare compare_all",
        "parallel": "LOST Workers run run_all",
        "study": "read_study",
        "units": "COLUMNS",
    },
)
