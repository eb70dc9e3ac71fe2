"""Hierarchical counts, in O(n K): norms and strategies on a tree, by sweeps up and down.

tree      the tree as merges of two parts at a time, or of copies of one
orbits    places that are alike, as one each
problem   the numbers for the solver of running sums, as resistances of the tree
spaces    tables of plain attributes at the nodes, as a tree for each kind of residual spaces
sweeps    least squares and its adjoint, up the tree and down
shares    a count or tables for each node, each with a share of its own, and their best shares
"""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "orbits": "orbits_of",
        "problem": "NestedCounts",
        "shares": "Shares",
        "spaces": "spaces_of",
        "sweeps": "swept",
        "tree": "Tree",
    },
)
