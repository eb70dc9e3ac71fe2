"""The baselines by name.

On a product workload A_1 x A_2 x ... the tree, Haar and square-root baselines are the Kronecker
products of the factors' baselines: a tree over each attribute, not over the flattened table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from pmldesign.errors import InvalidInputError
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.elementary import identity, kronecker, square_root, workload_strategy
from pmldesign.strategies.trees import haar_wavelet, tree
from pmldesign.workloads.base import Workload
from pmldesign.workloads.kronecker import KroneckerWorkload


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


def _by_factor(build: Callable[[int], Strategy]) -> Callable[[Workload], Strategy]:
    """Build from the number of cells, factor by factor on a product workload."""

    def build_for(workload: Workload) -> Strategy:
        if isinstance(workload, KroneckerWorkload):
            return kronecker([build_for(factor) for factor in workload.factors])
        return build(workload.shape[1])

    return build_for


BASELINES = (
    Baseline("identity", "every cell by itself", lambda workload: identity(workload.shape[1])),
    Baseline("workload", "the queries of the workload themselves", workload_strategy),
    Baseline(
        "tree",
        "sums of all nodes of a binary tree over the cells; tree:B for B children a node",
        _by_factor(tree),
    ),
    Baseline("haar", "Haar wavelet with entries 1 and -1, and the total", _by_factor(haar_wavelet)),
    Baseline(
        "square-root",
        "Toeplitz square root of prefix sums, lower triangular",
        _by_factor(square_root),
    ),
)


def baseline(name: str, workload: Workload) -> Strategy:
    """The baseline of that name for the workload.

    Args:
        name: a name in BASELINES, or "tree:B" with a whole number B of at least 2.
        workload: what is to be answered.

    Raises:
        InvalidInputError: the name is unknown or B is no such number, or the strategy is too
            large to be written out.
    """
    for known in BASELINES:
        if name == known.name:
            return known.build(workload)
    stem, colon, branching = name.partition(":")
    if stem == "tree" and colon:
        return _by_factor(_tree_builder(branching))(workload)
    names = [known.name for known in BASELINES]
    close = get_close_matches(stem.lower(), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InvalidInputError(
        f"strategy must be one of {', '.join(names)} or tree:B, got {name!r}{hint}"
    )


def _tree_builder(branching: str) -> Callable[[int], Strategy]:
    if not (branching.isascii() and branching.isdigit()) or len(branching) > 18:
        raise InvalidInputError(
            f"tree:B needs a whole number B of at least 2, got {'tree:' + branching!r}; try tree:4"
        )
    return lambda cells: tree(cells, branching=int(branching))
