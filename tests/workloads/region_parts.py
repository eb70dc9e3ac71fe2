"""Tables at regions that nest, and their rows from paths and Kronecker products."""

import numpy as np

from pmldesign.workloads import RegionTable

TREES = [
    [-1],  # one region
    [-1, 0, 1, 2],  # a chain of single children
    [-1] + [0] * 5,
    [-1, 0, 0, 2, 2, 4, 4, 6, 6],  # a comb
    [-1, 0, 0, 0, 1, 1, 2, 3, 3],
]


def region_part(table, nodes, scales, name="part"):
    return RegionTable(name, table, np.array(nodes), np.array(scales, dtype=float))


def rows_of(tree, factors, table, nodes, scales):
    """The rows of a part: the cells below each node, times one matrix for each attribute."""
    rows = np.zeros((tree.nodes, tree.cells))
    for cell, node in enumerate(tree.leaves):
        while node >= 0:
            rows[node, cell] = 1.0
            node = tree.parents[node]
    rows = rows[nodes] * np.asarray(scales)[:, None]
    for number, factor in enumerate(factors):
        rows = np.kron(rows, factor if number in table else np.ones((1, factor.shape[1])))
    return rows
