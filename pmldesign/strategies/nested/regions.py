r"""One noisy count for each region, with a weight of its own (`workloads.nested`).

R has the rows r_nu 1_nu, r_nu > 0 at all leaves, so that R has rank n: tables of no attributes
(`tables`). A column has the weights on the path from its leaf to the root: sum r_nu and
(sum r_nu^2)^(1/2) are its norms. Least squares goes up the tree and down again, so that parts add
up (`pmldesign_solvers.trees.sweeps`; `pmldesign_solvers.trees.shares` finds the weights).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.nested.tables import RegionTablesStrategy
from pmldesign.strategies.total import knows
from pmldesign.workloads.base import Workload
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign.workloads.public import NOTHING, Public
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.trees.tree import Tree


class RegionsStrategy(RegionTablesStrategy):
    """Counts of regions, each with a weight.

    Args:
        name: how tables and messages call it.
        tree: the regions; its leaves are the cells.
        weights: r_nu >= 0, shape (P,), one for each different set of cells (`Tree.place_of_node`);
            positive for leaves, 0 for regions that are not measured. Copied.
        public: the invariants.

    Raises:
        InvalidInputError: weights that are not such numbers.
    """

    regular: ClassVar[bool] = True

    def __init__(
        self, name: str, tree: Tree, weights: ArrayLike, *, public: Public = NOTHING
    ) -> None:
        every = np.asarray(weights, dtype=np.float64)
        if every.shape != (tree.places,) or not (every[tree.place_of_cell] > 0).all():
            raise InvalidInputError(
                f"strategy {name!r} needs a weight from 0 on for each of the different regions,"
                " positive for those of the lowest level"
            )
        super().__init__(name, tree, (), [()], every[None], public=public)

    @property
    def node_weights(self) -> Array:
        """The weight of every node, 0 if it is not measured, shape (N,)."""
        return np.asarray(self.of_nodes[0])

    def scaled(self, factor: float) -> RegionsStrategy:
        """R times a positive number."""
        weights = self.weights[0] * factor
        return RegionsStrategy(self.name, self.tree, weights, public=self.public)

    def _answers(self, workload: Workload) -> Array:
        assert isinstance(workload, RegionsWorkload)
        places = self.tree.place_of_node[workload.asked]
        return np.asarray(workload.scales[workload.asked] ** 2 * self._sweep.variances[0, places])


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


@knows.register
def _(strategy: RegionsStrategy, workload: Workload) -> bool:
    """Whether these are counts of the same regions, which structure answers."""
    return isinstance(workload, RegionsWorkload) and workload.tree.same(strategy.tree)
