r"""Strategies that measure tables, each with a weight, over a domain of any size.

Attribute i is measured by its design D_i (r_i x n_i, of rank n_i), or by its counts, D_i = 1, and
the table over S by the product of these, summed over the other attributes:

    R stacks theta_S (x)_{i in S} D_i  (x)_{i not in S} 1^T.

A cell counts once in every table, so that the l1 norm of every column is sum_S theta_S if no
column of a D_i is longer than 1, which suits Laplace noise. (Coordinates that do not depend
on each other, as in `strategy`, suit Gaussian noise.) With

    G_i = D_i^T D_i,   tau_i = 1^T G_i^-1 1,   v_i = G_i^-1 1 / tau_i,   X_i = G_i - 1 1^T / tau_i,

tau_i = n_i, v_i = 1/n_i and X_i = 1 - 1 1^T / n_i for counts, X_i v_i = 0, so that the Gram matrix
is a sum over sets T of attributes of orthogonal parts,

    R^T R = sum_T lambda_T (x)_{i in T} X_i  (x)_{i not in T} 1 1^T,
    lambda_T = sum over S containing T of theta_S^2 prod_{i in S, not in T} 1 / tau_i:

that of a `TablesStrategy`, which knows the variances and makes answers of the coordinates. From
measurements y_S the coordinates of T, with Psi_i^T those of X_i, are estimated by

    sum of theta_S (x)_T (D_i Psi_i)^T (x)_{S, not T} (D_i v_i)^T y_S / lambda_T over these S.

(`pmldesign_solvers.search.supports` chooses the weights.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import DistanceProfile, Norm
from pmldesign.strategies.arguments import nothing_but, read_only, require_measurements
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.residuals import coordinates_of_tables
from pmldesign.strategies.structured import CountsStrategy, Term
from pmldesign.strategies.tables.distances import COUNTS, Columns, TableDistances
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign.workloads.terms.attributes import attribute_sets, attribute_sizes, positive_weights
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure.subsets import residual_spaces
from pmldesign_solvers.tables.free_vector import Measured

WRITTEN_DISTANCES = 2**30
"""Most differences of entries that are formed for exact distances of columns (a second or two)."""
FULL_RANK = 1e-12
"""Least eigenvalue of G, relative to the largest: variances keep four digits at least."""


class WeightedTablesStrategy(CountsStrategy):
    """Measures tables of some sets of attributes, each with a weight of its own.

    Args:
        name: how tables and messages call it.
        sizes: number of values of each attribute.
        subsets: the attributes of each table, in any order; () is the total.
        weights: theta_S > 0 for each of them.
        designs: D_i, shape (r_i, n_i), of rank n_i, for attributes measured by more than counts.
        public: the number of records, if the measurements' information about it is taken out.

    Attributes:
        table_rows: the number of measurements of each table.
        levels: lambda_T of every T that the tables determine.
        residual: the strategy of independent coordinates that has the same Gram matrix.

    Raises:
        InvalidInputError: sizes, sets, weights or designs that are invalid or do not fit, too many
            subsets, or a public total if nothing else is measured.
    """

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        subsets: Iterable[Iterable[int]],
        weights: ArrayLike,
        designs: Mapping[int, ArrayLike] = MappingProxyType({}),
        *,
        public: Public = NOTHING,
    ) -> None:
        self.name, self.public = name, public
        self.sizes = attribute_sizes(sizes)
        self.subsets = attribute_sets("table", subsets, len(self.sizes))
        self.weights = positive_weights("table", weights, len(self.subsets))
        self.designs = {i: read_only(np.array(D, dtype=np.float64)) for i, D in designs.items()}
        for i, D in self.designs.items():
            if not 0 <= i < len(self.sizes) or D.ndim != 2 or D.shape[1] != self.sizes[i]:
                raise InvalidInputError(
                    f"strategy {name!r}: the design of attribute {i} has shape {D.shape}, which "
                    "does not fit its number of values"
                )
        self._row_sizes = list(self.sizes)  # r_i
        taus = [float(n) for n in self.sizes]
        self._measured: dict[int, Measured] = {}
        for i, D in self.designs.items():
            taus[i], self._measured[i] = tau_and_coordinates(name, D)
            self._row_sizes[i] = len(D)
        try:
            spaces = residual_spaces(self.sizes, self.subsets)
        except ValueError as error:
            raise InvalidInputError(f"strategy {name!r}: {error}") from None
        first = 1 if public else 0  # the first residual is that of the total
        residuals, self._incidence = spaces.residuals[first:], spaces.incidence[first:]
        if not residuals:
            raise nothing_but(public, name)
        rest = np.array([math.prod(taus[i] for i in S) for S in self.subsets])
        inner = np.array([math.prod(taus[i] for i in T) for T in residuals])
        levels = inner * (self._incidence @ (self.weights**2 / rest))
        self.levels = dict(zip(residuals, levels.tolist(), strict=True))
        plain = [
            math.prod(1 - 1 / self.sizes[i] for i in T if i not in self.designs) for T in residuals
        ]
        self.residual = TablesStrategy(
            name, self.sizes, residuals, levels * plain, self._measured, public=public
        )
        self.table_rows = [math.prod(self._row_sizes[i] for i in S) for S in self.subsets]
        self.shape = sum(self.table_rows), math.prod(self.sizes)
        self.columns = math.prod(self.sizes[i] for i in set().union(*self.subsets))

    def _beside(self, public: Public) -> Strategy:
        if public.kind != "records":
            return super()._beside(public)
        wide = [any(self.sizes[i] > 1 for i in subset) for subset in self.subsets]
        if not any(wide):
            raise nothing_but(public, self.name)
        return self._with(compress(self.subsets, wide), self.weights[wide], RECORDS)

    def scaled(self, factor: float) -> Strategy:
        """R times a positive number."""
        return self._with(self.subsets, self.weights * factor, self.public)

    def _with(
        self, subsets: Iterable[tuple[int, ...]], weights: Array, public: Public
    ) -> WeightedTablesStrategy:
        return WeightedTablesStrategy(
            self.name, self.sizes, subsets, weights, self.designs, public=public
        )

    @cached_property
    def terms(self) -> list[Term]:  # type: ignore[override]
        """The design of each attribute of each S."""
        return [
            Term(S, tuple(self.sizes[i] for i in S), tuple(self.designs.get(i) for i in S), weight)
            for S, weight in zip(self.subsets, self.weights.tolist(), strict=True)
        ]

    @property
    def centred(self) -> bool:  # type: ignore[override]
        """Where the number of records is public."""
        return bool(self.public)

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by at most: products, and their means.

        Of counts a mean is 1/m, and 1 - 1/m is at least 1/2, so that its rounding does not grow.
        """
        if not self.designs:
            return 4.0 if self.public else 0.0
        return 2.0 * len(self.sizes) + (4.0 * self.cells if self.public else 0.0)

    def _matrix_tells(self, norm: Norm) -> bool:  # noqa: ARG002
        """Of counts the distances are known."""
        rows, cells = self.shape
        return bool(self.designs) and self.few and rows * cells**2 <= WRITTEN_DISTANCES

    def _longest(self, norm: Norm) -> float:
        """Exact, except for the total of more than WRITTEN_CELLS cells if that is taken out."""
        if not self.public:
            return self._distances.longest(norm)
        return super()._longest(norm) if self.few else 2 * self._distances.longest(norm)

    def _farthest(self, norm: Norm) -> float:
        return self._distances.farthest(norm)

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """Beyond WRITTEN_CELLS: by the attributes in which two cells differ."""
        if self.few:
            return Strategy.distance_profile(self, norm)
        return self._distances.profile(norm)

    @cached_property
    def _distances(self) -> TableDistances:
        columns = dict.fromkeys(set().union(*self.subsets), COUNTS)
        columns |= {i: Columns.of(D) for i, D in self.designs.items() if i in columns}
        return TableDistances(self.sizes, columns, self.subsets, self.weights)

    def estimate(self, measurements: Array) -> Array:
        """A histogram with the coordinates that were measured, as `TablesStrategy.estimate`."""
        if self.designs and (self.few or measurements.ndim > 1):
            return Strategy.estimate(self, measurements)
        return self.residual.estimate(self._as_residual(measurements))

    def answer(self, workload: Workload, measurements: Array) -> Array:
        """L y = A R^+ y, shape (m,), for measurements y of shape (r,)."""
        self.require_answers(workload)
        return self.residual.answer(workload, self._as_residual(measurements))

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        self.residual.require_answers(workload)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        return self.residual.variances(workload)

    def norm_by_structure(self, workload: Workload, power: float) -> float | None:
        """`variance_norm`, table by table."""
        return self.residual.norm_by_structure(workload, power)

    def free_basis(self, attribute: int) -> tuple[Array, Array]:
        """v_i, and a Psi_i with Psi_i Psi_i^T that of X_i; all directions for counts."""
        if attribute in self.designs:
            inverse = self._measured[attribute].inverse
            return inverse[:, 0], inverse[:, 1:]
        n = self.sizes[attribute]
        return np.full(n, 1 / n), np.eye(n) - 1 / n

    def _as_residual(self, measurements: Array) -> Array:
        """The measurements of `residual`, estimated by least squares."""
        require_measurements(self.name, self.shape[0], measurements)
        blocks = np.split(measurements, np.cumsum(self.table_rows)[:-1])
        tensors = [
            weight * block.reshape([*(self._row_sizes[i] for i in S), *block.shape[1:]])
            for S, weight, block in zip(self.subsets, self.weights, blocks, strict=True)
        ]
        sums: list[Array] = []
        for row, T in enumerate(self.levels):
            tables = self._incidence.indices[slice(*self._incidence.indptr[row : row + 2])]
            sums.append(np.asarray(sum(self._margin(k, T, tensors[k]) for k in tables)))
        turns = {
            i: np.ascontiguousarray((self.designs[i] @ part.inverse[:, 1:]).T)
            for i, part in self._measured.items()
        }
        parts = coordinates_of_tables(self._row_sizes, tuple(self.levels), sums, turns)
        scaled = []
        precisions = self.residual.precisions.tolist()
        for T, precision, part in zip(self.levels, precisions, parts, strict=True):
            ns = [self.sizes[i] for i in T if i not in self.designs]
            plain = math.prod(math.sqrt(n - 1) / n for n in ns)
            scaled.append(part * (plain / math.sqrt(precision)))
        return np.concatenate(scaled)

    def _margin(self, number: int, kept: tuple[int, ...], tensor: Array) -> Array:
        """(x)_{S, not T} (D_i v_i)^T times a table by S, which leaves one by T."""
        trailing = tensor.shape[len(self.subsets[number]) :]
        summed: list[int] = []
        scale = 1.0
        for axis, i in reversed([*enumerate(self.subsets[number])]):
            if i in self.designs and i not in kept:
                vector = self.designs[i] @ self._measured[i].inverse[:, 0]
                tensor = np.tensordot(vector, tensor, axes=(0, axis))
                summed = [place - 1 for place in summed]
            elif i not in kept:
                summed.append(axis)
                scale /= self.sizes[i]
        return np.asarray(scale * tensor.sum(axis=tuple(summed)).reshape(-1, *trailing))


def has_full_rank(design: Array) -> bool:
    """Whether a design D, shape (r, n), distinguishes all values."""
    values = np.linalg.eigvalsh(design.T @ design)
    return bool(values[0] > FULL_RANK * values[-1])


def tau_and_coordinates(name: str, design: Array) -> tuple[float, Measured]:
    """Tau of a design D, shape (r, n), and Y with its inverse.

    Raises:
        InvalidInputError: the design has not full rank.
    """
    if not has_full_rank(design):
        raise InvalidInputError(f"strategy {name!r}: the design of an attribute has not full rank")
    n = design.shape[1]
    gram = design.T @ design
    values, vectors = np.linalg.eigh(gram)
    solution = vectors @ ((vectors.T @ np.ones(n)) / values)
    tau = float(solution.sum())
    # Y in an orthonormal basis of the complement of v, so that X v = 0 holds up to rounding
    basis = np.linalg.qr(np.column_stack([solution, np.eye(n)]))[0][:, 1:n]
    inner = basis.T @ (gram - 1 / tau) @ basis
    roots, turn = np.linalg.eigh(inner)
    rows = (basis @ turn * np.sqrt(roots)).T
    return tau, Measured(rows, np.linalg.inv(np.vstack([np.ones(n), rows])))
