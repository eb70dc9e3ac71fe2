r"""One noisy count for each region, with a weight of its own (`workloads.nested`).

R has the rows r_nu 1_nu, r_nu > 0 at all leaves, so that R has rank n. A column has the weights on
the path from its leaf to the root: sum r_nu and (sum r_nu^2)^(1/2) are its norms, and two columns
differ in what is not above both. Least squares goes up the tree and down again, so that parts add
up (`pmldesign_solvers.trees.sweeps`; `pmldesign_solvers.trees.shares` finds the weights).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import LARGEST_ENTRY, read_only, require_measurements
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.trees.sweeps import Sweep, estimates, swept, with_total
from pmldesign_solvers.trees.tree import Tree

if TYPE_CHECKING:
    from pmldesign.strategies.base import Strategy
    from pmldesign.strategies.whole.lattice import Lattice


class RegionsStrategy(StructuredStrategy):
    """Counts of regions, each with a weight.

    Args:
        name: how tables and messages call it.
        tree: the regions; its leaves are the cells.
        weights: r_nu >= 0, shape (P,), one for each different set of cells (`Tree.place_of_node`);
            positive for the leaves, 0 for what is not measured. Copied.

    Attributes:
        measured: the nodes whose counts are measured, in increasing order, shape (r,).

    Raises:
        InvalidInputError: weights that are no such numbers.
    """

    regular: ClassVar[bool] = True
    stays_beside: ClassVar[bool] = True

    def __init__(self, name: str, tree: Tree, weights: ArrayLike) -> None:
        self.name, self.tree = name, tree
        self.weights = read_only(np.array(weights, dtype=np.float64))
        nodes, first = np.unique(tree.place_of_node, return_index=True)
        counted = np.zeros(tree.places, dtype=bool)
        counted[nodes] = True
        fits = self.weights.shape == (tree.places,) and (
            ((self.weights == 0) | (self.weights >= 1 / LARGEST_ENTRY)).all()
            and (self.weights <= LARGEST_ENTRY).all()
            and (self.weights[tree.place_of_cell] > 0).all()
            and not self.weights[~counted].any()
        )
        if not fits:
            raise InvalidInputError(
                f"strategy {name!r} needs a weight from 0 on for each of the {len(nodes)} different"
                " regions, positive for those of the lowest level"
            )
        self.measured: Indices = np.sort(first[self.weights[nodes] > 0])
        self._rows = tree.place_of_node[self.measured]
        self.shape, self.columns = (len(self.measured), tree.cells), tree.cells

    @property
    def node_weights(self) -> Array:
        """The weight of every node, 0 where it is not measured, shape (N,)."""
        weights = np.zeros(self.tree.nodes)
        weights[self.measured] = self.weights[self._rows]
        return weights

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm, rounded up."""
        exponent = int(np.frexp(self.weights.max())[1])
        of_nodes = np.ldexp(self.node_weights, -exponent)
        if norm == "l2":
            of_nodes = of_nodes**2
        if neighbours == Neighbours.ADD_REMOVE:
            largest = float(self.tree.above(of_nodes).max())
        else:
            largest = float(self.tree.farthest(of_nodes))
        root = largest if norm == "l1" else float(np.sqrt(largest))
        return float(np.ldexp(raised(root, self.tree.height + 6), exponent))

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        counts = self.tree.sums_of_places(x)[self._rows]
        return np.asarray((counts.T * self.weights[self._rows]).T)

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        return self._estimates(measurements)[self.tree.place_of_cell]

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        if not isinstance(workload, RegionsWorkload) or not workload.tree.same(self.tree):
            return super().variances(workload)
        places = self.tree.place_of_node[workload.asked]
        return workload.scales[workload.asked] ** 2 * self._sweep.variances[places]

    def free_vector(self) -> Array:
        """(R^T R)^-1 1, shape (n,): the covariances of all cells with the total."""
        return with_total(self.tree, self.weights**2, self._sweep)

    def scaled(self, factor: float) -> RegionsStrategy:
        """R times a positive number."""
        return RegionsStrategy(self.name, self.tree, self.weights * factor)

    def on_lattice(
        self,
        workload: Workload,  # noqa: ARG002
        bits: int,
        beside: Strategy | None = None,
    ) -> Lattice:
        """Counts, each times a whole number."""
        from pmldesign.strategies.whole.regions import regions_lattice

        return regions_lattice(beside or self, self, bits)

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        check_entries(f"the inverse of strategy {self.name!r}", self.shape)
        return read_only(self.estimate(np.eye(self.shape[0]))), self.cells

    @cached_property
    def _sweep(self) -> Sweep:
        return swept(self.tree, self.weights**2)

    def _estimates(self, measurements: Array) -> Array:
        """The estimates of all places, shape (P,) or (P, c)."""
        require_measurements(self.name, self.shape[0], measurements)
        rows = measurements.reshape(len(measurements), -1)
        own = np.zeros((self.tree.places, rows.shape[1]))
        own[self._rows] = rows * self.weights[self._rows][:, None]  # x c = r y
        found = estimates(self.tree, self.weights**2, self._sweep.below, own)
        return found.reshape(-1, *measurements.shape[1:])


def from_nodes(name: str, parents: ArrayLike, node_weights: Array) -> RegionsStrategy:
    """The strategy from the parent and the weight of every node.

    Raises:
        ValueError: the parents are those of no tree, or of another number of nodes.
    """
    tree, weights = Tree(np.asarray(parents)), np.asarray(node_weights, dtype=np.float64)
    if weights.shape != (tree.nodes,):
        raise ValueError("parents and node_weights do not fit")
    places = np.zeros(tree.places)
    np.maximum.at(places, tree.place_of_node, weights)
    return RegionsStrategy(name, tree, places)
