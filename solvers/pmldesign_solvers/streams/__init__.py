"""Running sums in O(n K): certified factorization norms without a matrix (docs/streams.md).

chain         the alternating path of rows and columns behind a bidiagonal inverse
diagonals     diagonals of rational functions on it, by recurrences without subtraction
nodes         rational functions close to x^(-1/2)
clock         when coarse levels end
fixed_point   the weights of the dual, from coarse chains to fine ones
certificate   both bounds, quadrature and rounding included
"""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "blocks": "BlockRows LANES SIZE",
        "certificate": "lower_bound upper_bound variances",
        "chain": "AllRanges RunningSums",
        "nodes": "Nodes zolotarev",
    },
)
