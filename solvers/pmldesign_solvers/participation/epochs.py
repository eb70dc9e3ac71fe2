"""Diagonal blocks of rational functions of running sums, over steps that are b apart.

Step t = e b + c is member e of class c, and a person takes part in a class. W is block diagonal
over the classes, with blocks W_c of order m = ceil(n / b). With G = A^T A of running sums,

    G^-1 has diagonal alpha_t + beta_t, and -(beta_t alpha_{t-1})^(1/2) next to it,
    alpha_t = 1 / (h_t q_t)^2,    beta_t = (rate_t / (h_t q_{t-1}))^2,    beta_0 = 0,

so that G^-1 + s^2 W is, class by class, block tridiagonal with diagonal blocks off the diagonal,
and a corner from class b - 1 to the next epoch's class 0. Class 0 is the separator. For the
others, with O_c the diagonal of the couplings to class c - 1,

    F_c  = alpha_c + H_c,     H_c  = s^2 W_c + beta_c^(1/2) [J (I + J)^-1] beta_c^(1/2),
                              J = alpha^(-1/2) H alpha^(-1/2) of class c - 1,
    F'_c = beta_c + H'_c,     H'_c = s^2 W_c + alpha_c^(1/2) [J (I + J)^-1] alpha_c^(1/2),
                              J = beta^(-1/2) H' beta^(-1/2) of class c + 1,

are the Schur complements from both ends, where only positive definite matrices are added, and

    (G^-1 + s^2 W)^-1_cc = (H_c + H'_c - s^2 W_c)^-1 + Z_c S^-1 Z_c^T,
    Z_c = P_c O_1 + Q_c N^T,   P_c = F'_c^-1 O_c P_{c-1},   Q_c = F_c^-1 O_{c+1} Q_{c+1},
    S   = (G^-1 + s^2 W)_00 - O_1 Z_1 - N Z_{b-1},

N the couplings from class b - 1 to class 0 of the next epoch. Steps beyond n - 1 in the last epoch
are there to fill the blocks: not coupled to any other, and their entries are 0 in the end. All
nodes s are taken at once; O(n m^2 K).

Entries of Y = sum_k c_k (G^-1 + s_k^2 W)^-1 off its diagonal blocks are

    Y_{c+1,c} = F'_{c+1}^-1 O_{c+1} M_cc + Z_{c+1} S^-1 Z_c^T,
    Y_{c,0}   = Z_c S^-1,                      M_cc = (H_c + H'_c - s^2 W_c)^-1,

and further away from the diagonal M_{c',c} = F'_{c'}^-1 O_{c'} M_{c'-1,c}.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.nodes import Nodes

LANES = 256
"""Classes whose blocks are inverted at a time: 256 take some megabytes."""


@dataclass(frozen=True, eq=False)
class Epochs:
    """Running sums whose steps are numbered by class and epoch.

    Attributes:
        sums: A, over n steps.
        every: b, at least 2: steps from one participation to the next.
    """

    sums: RunningSums
    every: int

    @property
    def members(self) -> int:
        """The number m of steps of a class."""
        return -(-self.sums.cells // self.every)

    def by_class(self, values: Array, fill: float) -> Array:
        """Values of shape (n,) as (b, m); `fill` beyond the last step."""
        padded = np.full(self.members * self.every, fill)
        padded[: values.size] = values
        return np.ascontiguousarray(padded.reshape(self.members, self.every).T)

    def by_step(self, values: Array) -> Array:
        """Values of shape (b, m) as (n,)."""
        return np.ascontiguousarray(values.T.ravel()[: self.sums.cells])

    @cached_property
    def real(self) -> Array:
        """1 for steps, 0 beyond the last one, shape (b, m)."""
        return self.by_class(np.ones(self.sums.cells), 0.0)

    @cached_property
    def couplings(self) -> tuple[Array, Array]:
        """Roots of alpha and beta, each of shape (b, m); 1 beyond the last step."""
        queries, steps = np.sqrt(self.sums.query_squares), np.sqrt(self.sums.step_squares)
        before = np.concatenate([[0.0], self.sums.rates / queries[:-1]])
        alpha, beta = 1.0 / (queries * steps), before / steps
        return self.by_class(alpha, 1.0), self.by_class(beta, 1.0)

    def row_norms(self, blocks: Array) -> Array:
        """diag(A W A^T), shape (n,): the pairs of steps up to t, by the later one."""
        sums = self.sums
        steps = np.sqrt(sums.step_squares)
        places, heights = self.by_class(sums.log_decays, 0.0), self.by_class(steps, 0.0)
        arriving = np.zeros_like(heights)
        for e in range(self.members):
            kept = np.exp(places[:, e : e + 1] - places[:, : e + 1])
            terms = blocks[:, e, : e + 1] * heights[:, : e + 1] * kept
            arriving[:, e] = (2.0 * terms.sum(axis=1) - terms[:, e]) * heights[:, e]
        values = RunningSums(sums.rates, np.sqrt(sums.query_squares), np.ones(sums.cells))
        return values.row_norms(self.by_step(arriving))

    def trace(self, blocks: Array) -> float:
        """tr(A W A^T), for W_c of shape (b, m, m)."""
        sums = self.sums
        later = sums.gram_diagonal(np.ones(sums.cells)) / sums.step_squares
        sizes, places = self.by_class(later, 0.0), self.by_class(sums.log_decays, 0.0)
        heights = self.by_class(np.sqrt(sums.step_squares), 0.0)
        total = 0.0
        for e in range(self.members):  # with every later epoch, twice except for itself
            kept = np.exp(places[:, e:] - places[:, e : e + 1]) * heights[:, e : e + 1]
            terms = blocks[:, e, e:] * sizes[:, e:] * kept * heights[:, e:]
            total += float(2.0 * terms.sum() - terms[:, 0].sum())
        return total


def resolvent_blocks(epochs: Epochs, blocks: Array, nodes: Nodes) -> Array:
    """sum_k c_k (G^-1 + s_k^2 W)^-1_cc, shape (b, m, m); constant and origin are left out.

    Args:
        epochs: the running sums.
        blocks: W_c, shape (b, m, m), positive definite on the steps that exist.
        nodes: s_k and c_k.
    """
    squares, weights = nodes.poles**2, nodes.weights
    inner = Inner(epochs, blocks, squares)
    total = np.empty_like(blocks)
    separator = np.linalg.inv(symmetric(inner.separator))
    total[0] = np.tensordot(weights, separator, 1)
    for start in range(1, epochs.every, LANES):
        part = slice(start, start + LANES)
        spread = inner.spread[part]
        inverses = np.linalg.inv(inner.middle(part)) + spread @ separator @ transposed(spread)
        total[part] = np.einsum("k,ckef->cef", weights, inverses)
    return symmetric(masked(epochs, total))


class Inner:
    """All but class 0, for several nodes at once: arrays of shape (b, K, m, m), row 0 not used."""

    def __init__(self, epochs: Epochs, blocks: Array, squares: Array) -> None:
        self.epochs, self.squares = epochs, squares[:, None, None]
        self.blocks = masked(epochs, blocks)
        self.alpha, self.beta = epochs.couplings
        self.unit = np.eye(epochs.members)
        self.forward, self.forward_inverse = self._sweep(backwards=False)
        self.backward, self.backward_inverse = self._sweep(backwards=True)

    def _sweep(self, *, backwards: bool) -> tuple[Array, Array]:
        """H_c and F_c^-1 from one end."""
        b, real = self.epochs.every, self.epochs.real
        near, far = (self.beta, self.alpha) if backwards else (self.alpha, self.beta)
        nears, fars = (side[:, :, None] * side[:, None, :] for side in (near, far))
        parts = self.squares * self.blocks[:, None]
        inverses = np.empty_like(parts)
        damped = np.broadcast_to(self.unit, parts.shape[1:])
        before = real[b - 1] if backwards else real[0]
        for c in range(b - 1, 0, -1) if backwards else range(1, b):
            if backwards or real[c, -1] < before[-1]:
                # a step without a neighbour keeps all of its own part
                kept = before * real[c]
                lone = np.diag(real[c] * (1.0 - before))
                damped = damped * np.outer(kept, kept) + lone
            parts[c] += damped * fars[c]
            scaled = parts[c] / nears[c]
            inverse = np.linalg.inv(self.unit + scaled)
            np.divide(inverse, nears[c], out=inverses[c])
            damped = symmetric(scaled @ inverse)
            before = real[c]
        return parts, inverses

    def middle(self, part: slice) -> Array:
        """H_c + H'_c - s^2 W_c; 1 beyond the last step."""
        block = self.squares * self.blocks[part, None]
        beyond = (1.0 - self.epochs.real[part])[:, None, :, None] * self.unit
        return np.asarray(self.forward[part] + self.backward[part] - block + beyond)

    @cached_property
    def between(self) -> Array:
        """O_c, between class c - 1 and class c, shape (b, m); 0 without coupling."""
        values = np.zeros_like(self.beta)
        values[1:] = self.beta[1:] * self.alpha[:-1] * self.epochs.real[1:]
        return values

    @cached_property
    def corner(self) -> Array:
        """N, shape (m, m)."""
        values = self.beta[0, 1:] * self.alpha[-1, :-1] * self.epochs.real[0, 1:]
        return np.diag(values, -1)

    @cached_property
    def spread(self) -> Array:
        """Z_c (see the module), shape (b, m, m)."""
        b, between = self.epochs.every, self.between
        pieces = np.empty_like(self.forward)
        row = self.backward_inverse[1] * between[1]
        for c in range(1, b):
            if c > 1:
                row = self.backward_inverse[c] @ (between[c, :, None] * row)
            pieces[c] = row
        row = self.forward_inverse[b - 1] @ self.corner.T
        for c in range(b - 1, 0, -1):
            if c < b - 1:
                row = self.forward_inverse[c] @ (between[c + 1, :, None] * row)
            pieces[c] += row
        return pieces

    @cached_property
    def separator(self) -> Array:
        """S (see the module), shape (m, m)."""
        block = np.diag(self.alpha[0] ** 2 + self.beta[0] ** 2) + self.squares * self.blocks[0]
        around = self.between[1][:, None] * self.spread[1] + self.corner @ self.spread[-1]
        return np.asarray(block - around)


def masked(epochs: Epochs, blocks: Array) -> Array:
    """The blocks with zeros in rows and columns of members beyond the last step."""
    return np.asarray(blocks * (epochs.real[:, :, None] * epochs.real[:, None, :]))


def transposed(matrices: Array) -> Array:
    """The transpose of each of the matrices."""
    return np.swapaxes(matrices, -1, -2)


def symmetric(matrices: Array) -> Array:
    """The symmetric part of each of the matrices."""
    return np.asarray(0.5 * (matrices + transposed(matrices)))


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
