"""The baselines by name.

On a product workload A_1 x A_2 x ... every baseline is the Kronecker product of the factors'
baselines: a tree over each attribute, not over the flattened table. On a union of products it is
the product of the baselines for all that is asked about each attribute; only "workload" stays as it
is there, the queries themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pmldesign.arguments import instance
from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.eigenvectors import eigen_design
from pmldesign.strategies.baselines.elementary import (
    identity,
    product_strategy,
    square_root,
)
from pmldesign.strategies.baselines.queries import workload_strategy
from pmldesign.strategies.baselines.trees import best_tree, haar_wavelet, tree, weighted_tree
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.nested.tables import NestedWorkload
from pmldesign.workloads.terms.over import attribute_queries
from pmldesign_solvers.limits import WRITTEN_CELLS

SHARES = "equal-shares", "level-shares"
"""Of counts that nest: the budget divided evenly among the levels, or as is best at p = 2."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A strategy that needs no optimization.

    Attributes:
        name: what `baseline` accepts.
        description: one line, for the help and the documentation.
        build: the strategy for a workload.
    """

    name: str
    description: str
    build: Callable[[Workload], Strategy]


def _each_factor(build: Callable[[Workload], Strategy]) -> Callable[[Workload], Strategy]:
    """Build attribute by attribute on a product, or a union of products."""

    def build_for(workload: Workload) -> Strategy:
        asked = attribute_queries(workload)
        return (
            build(workload)
            if len(asked) == 1
            else product_strategy([build(part) for part in asked])
        )

    return build_for


def _by_cells(build: Callable[[int], Strategy]) -> Callable[[Workload], Strategy]:
    """Build from the number of cells, attribute by attribute."""
    return _each_factor(lambda workload: build(workload.shape[1]))


def _identity(workload: Workload) -> Strategy:
    """The identity on all cells; beyond a written matrix refused for attributes asked together."""
    n = workload.shape[1]
    if len(workload.domain) > 1:
        check_entries("strategy 'identity'", (n, n))
    return identity(n)


BASELINES = (
    Baseline("identity", "every cell by itself", _each_factor(_identity)),
    Baseline("workload", "the queries of the workload themselves", workload_strategy),
    Baseline(
        "tree",
        "sums of all nodes of a binary tree over the cells; tree:B for B children a node",
        _by_cells(tree),
    ),
    Baseline(
        "tree:best",
        "the tree with the best number of children for the workload",
        _each_factor(best_tree),
    ),
    Baseline(
        "weighted-tree",
        "the binary tree with the best weight of each level; weighted-tree:B for B children",
        _each_factor(weighted_tree),
    ),
    Baseline("haar", "Haar wavelet with entries 1 and -1, and the total", _by_cells(haar_wavelet)),
    Baseline(
        "square-root",
        "Toeplitz square root of prefix sums, lower triangular",
        _by_cells(square_root),
    ),
    Baseline(
        "eigen-design",
        "eigenvectors of the workload's Gram matrix with the best weights",
        _each_factor(eigen_design),
    ),
)


def baseline(name: str, workload: Workload, *, others: Sequence[str] = ()) -> Strategy:
    """The baseline of that name for the workload.

    Args:
        name: a name in BASELINES, or "tree:B" or "weighted-tree:B" with an integer B >= 2, or
            for running sums "banded:B" or "blt:K" with so many coefficients or exponentials.
        workload: the queries to answer.
        others: further names that the caller accepts, for the message about an unknown one.

    Raises:
        InvalidInputError: the name is unknown, B is not such a number, or the strategy is too
            large to be materialized.
    """
    instance("name", name, str, "that of a baseline, such as 'tree'")
    instance("workload", workload, Workload, "a Workload (pmldesign.workload makes one)")
    workload = workload.whole
    large = long_baseline(name, workload) or nested_baseline(name, workload)
    if large is not None:
        return large
    for entry in BASELINES:
        if name == entry.name:
            return entry.build(workload)
    stem, colon, branching = name.partition(":")
    if stem == "tree" and colon:
        children = _number(stem, branching)
        return _by_cells(lambda cells: tree(cells, branching=children))(workload)
    if stem == "weighted-tree" and colon:
        children = _number(stem, branching)
        return _each_factor(lambda part: weighted_tree(part, branching=children))(workload)
    if stem in ("banded", "blt") and colon:
        return _root(stem, branching, workload)
    names = [*others, *(entry.name for entry in BASELINES)]
    close = get_close_matches(stem.lower(), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InvalidInputError(
        f"strategy must be one of {', '.join(names)}, tree:B, weighted-tree:B, banded:B or blt:K,"
        f" got {name!r}{hint}"
    )


def long_baseline(name: str, workload: Workload) -> Strategy | None:
    """A baseline of long running sums, by its coefficients; None if matrices will do."""
    n = workload.shape[1]
    if n <= WRITTEN_CELLS:
        return None
    from pmldesign.strategies.baselines.toeplitz import toeplitz_baseline, toeplitz_rate

    rate = toeplitz_rate(workload)
    return None if rate is None else toeplitz_baseline(name, n, rate)


def nested_baseline(name: str, workload: Workload) -> Strategy | None:
    """A baseline of counts that nest, by their tree; None if matrices will do."""
    if not isinstance(workload.whole, NestedWorkload):
        return None
    from pmldesign.strategies.baselines import nested

    counts = workload.whole
    makers: dict[str, Callable[[NestedWorkload], Strategy | None]] = {
        "equal-shares": nested.equal_shares,
        "level-shares": nested.level_shares,
    }
    if counts.shape[1] > WRITTEN_CELLS:
        makers |= {"identity": nested.cells_alone, "workload": nested.queries_alone}
    return makers[name](counts) if name in makers else None


def usual_baselines(workload: Workload) -> tuple[str, ...]:
    """The baselines that are shown alongside designs."""
    if isinstance(workload.whole, NestedWorkload):
        return *SHARES, "identity", "workload"
    return "tree", "haar", "identity", "workload"


def _root(stem: str, number: str, workload: Workload) -> Strategy:
    from pmldesign.strategies.baselines.toeplitz import banded_root, poles_root

    if stem == "banded":
        return banded_root(workload, _number(stem, number, least=1))
    return poles_root(workload, _number(stem, number))


def _number(stem: str, text: str, *, least: int = 2) -> int:
    """The number of children, of coefficients or of exponentials."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        letter = "B" if stem.endswith("tree") else "K"
        raise InvalidInputError(
            f"{stem}:{letter} needs a whole number {letter} of at least {least}, got "
            f"{stem + ':' + text!r}; try {stem}:4"
        )
    return int(text)
