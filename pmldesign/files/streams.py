"""Stream strategies in strategy files: weights, nodes, and the sums that they are for.

Weights of the same value are written once, so that a file for a million steps has 8 to 32 MB.
"""

from __future__ import annotations

import numpy as np

from pmldesign.files.arrays import Archive
from pmldesign.strategies import StreamStrategy
from pmldesign.workloads.running import RunningWorkload, stream_problem
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.nodes import Nodes


def stream_arrays(strategy: StreamStrategy) -> dict[str, Array]:
    """What the file holds."""
    sums = strategy.sums
    return {
        "poles": strategy.nodes.poles,
        "weights_of_poles": strategy.nodes.weights,
        "u": _shortened(strategy.u),
        "w": strategy.w,
        "rates": _shortened(sums.rates),
        "query_weights": _shortened(np.sqrt(sums.query_squares)),
        "step_weights": _shortened(np.sqrt(sums.step_squares)),
    }


def _shortened(values: Array) -> Array:
    """A single number for equal ones."""
    return values[:1] if values.size and (values == values[0]).all() else values


def read_stream(name: str, arrays: Archive) -> StreamStrategy:
    """The strategy that arrays of a file stand for.

    Raises:
        InvalidInputError: they are not positive, or of lengths that do not fit.
    """
    n = len(arrays["w"])
    rates = np.broadcast_to(arrays["rates"], n - 1) if n > 1 else np.zeros(0)
    queries, steps = (
        np.broadcast_to(arrays[key], n).astype(float) for key in ("query_weights", "step_weights")
    )
    sums = RunningWorkload(rates, queries, steps)  # which checks them
    problem = stream_problem(sums)
    assert problem is not None
    nodes = Nodes(arrays["poles"], arrays["weights_of_poles"])
    u = np.broadcast_to(arrays["u"], n).astype(float)
    return StreamStrategy(name, problem, u, arrays["w"], nodes)
