"""Running sums in O(n K): certified factorization norms without a matrix.

Proofs: docs/background/streams.md.

chain         the path of rows and columns behind a bidiagonal inverse, and its diagonals
nodes         rational functions close to x^(-1/2)
factor        the lower triangular strategy, a stream with K numbers of state, in blocks of rows
fixed_point   the weights of the dual, from coarse chains to fine ones
certificate   both bounds, quadrature and rounding included
"""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "certificate": "lower_bound upper_bound variances",
        "chain": "AllRanges RunningSums",
        "factor": "BlockRows LANES SIZE",
        "nodes": "Nodes zolotarev",
    },
)
