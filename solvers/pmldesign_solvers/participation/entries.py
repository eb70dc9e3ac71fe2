"""More entries of Y = sum_k c_k (G^-1 + s_k^2 W)^-1 than its diagonal blocks (`epochs`).

    Y_{c+1,c} = F'_{c+1}^-1 O_{c+1} M_cc + Z_{c+1} S^-1 Z_c^T,
    Y_{c,0}   = Z_c S^-1,                      M_cc = (H_c + H'_c - s^2 W_c)^-1,

and further away from the diagonal M_{c',c} = F'_{c'}^-1 O_{c'} M_{c'-1,c}.
"""

from __future__ import annotations

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.participation.epochs import Epochs, Inner, symmetric, transposed
from pmldesign_solvers.streams.nodes import Nodes


def neighbouring_entries(epochs: Epochs, blocks: Array, nodes: Nodes) -> Array:
    """Y_{t+1,t}, shape (n - 1,); arguments as for `resolvent_blocks`."""
    inner = Inner(epochs, blocks, nodes.poles**2)
    separator = np.linalg.inv(symmetric(inner.separator))
    beside = np.zeros((epochs.every, epochs.members))  # by the earlier of both steps
    carried = inner.spread @ separator
    for c in range(1, epochs.every - 1):
        middle = np.linalg.inv(inner.middle(slice(c, c + 1))[0])
        step = inner.backward_inverse[c + 1] @ (inner.between[c + 1][:, None] * middle)
        beside[c] = _summed(nodes, step + carried[c + 1] @ transposed(inner.spread[c]))
    beside[0] = _summed(nodes, carried[1])
    corner = np.tensordot(nodes.weights, carried[-1], 1)
    beside[-1, :-1] = np.diagonal(corner, 1)  # member e of the last class, e + 1 of the first
    return epochs.by_step(beside)[:-1]


def full_gram(epochs: Epochs, blocks: Array, nodes: Nodes) -> Array:
    """Y, shape (n, n), in O(n^2 m K)."""
    b, m, n = epochs.every, epochs.members, epochs.sums.cells
    inner = Inner(epochs, blocks, nodes.poles**2)
    separator = np.linalg.inv(symmetric(inner.separator))
    classes = np.zeros((b, m, b, m))
    rows = np.empty((b, nodes.poles.size, m, m))  # M_{c,c'} for all c' up to c
    for c in range(1, b):
        if c > 1:
            step = inner.backward_inverse[c] * inner.between[c]
            rows[1:c] = step @ rows[1:c]
        rows[c] = np.linalg.inv(inner.middle(slice(c, c + 1))[0])
        classes[c, :, 1 : c + 1] = np.einsum("k,dkef->edf", nodes.weights, rows[1 : c + 1])
    for k, weight in enumerate(nodes.weights):
        root = np.linalg.cholesky(separator[k]) * np.sqrt(weight)
        columns = np.empty((b, m, m))
        columns[0], columns[1:] = root, inner.spread[1:, k] @ root
        flat = columns.reshape(b * m, m)
        classes += (flat @ flat.T).reshape(b, m, b, m)
    steps = np.transpose(classes, (1, 0, 3, 2)).reshape(m * b, m * b)[:n, :n]
    lower = np.tril(np.ones((b, b), dtype=bool))[None, :, None, :]
    lower = np.broadcast_to(lower, (m, b, m, b)).reshape(m * b, m * b)[:n, :n]
    return np.asarray(np.where(lower, steps, steps.T))


def _summed(nodes: Nodes, matrices: Array) -> Array:
    """The diagonal of the weighted sum."""
    return np.asarray(np.einsum("k,kee->e", nodes.weights, matrices))
