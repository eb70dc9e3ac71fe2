"""Stream strategies in strategy files: weights, nodes, and the sums that they are for.

Weights of the same value are written once, so that a file for a million steps has 8 to 32 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmldesign.files.arrays import Archive, whole_numbers
from pmldesign.strategies import StreamStrategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.schema import Participation
from pmldesign.strategies.streams import AllRangesStrategy
from pmldesign.workloads.running import RunningWorkload, stream_problem
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.nodes import Nodes


def stream_arrays(strategy: StreamStrategy) -> dict[str, Array]:
    """What the file of a strategy for running sums holds."""
    nodes = {"poles": strategy.nodes.poles, "weights_of_poles": strategy.nodes.weights}
    return {**nodes, "u": _shortened(strategy.u), "w": strategy.w, **_sums(strategy.sums)}


def all_ranges_arrays(strategy: AllRangesStrategy) -> dict[str, Array]:
    """What the file of a strategy for all intervals holds."""
    nodes = {"poles": strategy.nodes.poles, "weights_of_poles": strategy.nodes.weights}
    return {**nodes, "w": strategy.w}


def read_all_ranges(name: str, arrays: Archive) -> AllRangesStrategy:
    """The strategy for all intervals that arrays of a file stand for.

    Raises:
        InvalidInputError: they are not positive.
    """
    return AllRangesStrategy(name, arrays["w"], _read_nodes(arrays))


def epoch_arrays(strategy: EpochStrategy) -> dict[str, Any]:
    """What the file of a strategy for fixed epochs holds."""
    schema = strategy.participation
    return {
        "epochs": np.array([strategy.cells, schema.times, schema.apart], dtype=np.int64),
        "poles": strategy.nodes.poles,
        "weights_of_poles": strategy.nodes.weights,
        "epoch_weights": strategy.weights,
        **_sums(strategy.sums),
    }


def _sums(sums: RunningSums) -> dict[str, Array]:
    return {
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
    u = np.broadcast_to(arrays["u"], n).astype(float)
    return StreamStrategy(name, _read_sums(arrays, n), u, arrays["w"], _read_nodes(arrays))


def read_epochs(name: str, arrays: Archive) -> EpochStrategy:
    """The strategy for fixed epochs that arrays of a file stand for.

    Raises:
        InvalidInputError: they are of shapes that do not fit, or no weights.
    """
    n, times, apart = whole_numbers("epochs", arrays["epochs"])
    schema = Participation(times, apart, fixed=True)
    sums = _read_sums(arrays, n)
    return EpochStrategy(name, sums, schema, arrays["epoch_weights"], _read_nodes(arrays))


def _read_sums(arrays: Archive, n: int) -> RunningSums:
    rates = np.broadcast_to(arrays["rates"], n - 1) if n > 1 else np.zeros(0)
    queries, steps = (
        np.broadcast_to(arrays[key], n).astype(float) for key in ("query_weights", "step_weights")
    )
    problem = stream_problem(RunningWorkload(rates, queries, steps))  # which checks them
    assert problem is not None
    return problem


def _read_nodes(arrays: Archive) -> Nodes:
    return Nodes(arrays["poles"], arrays["weights_of_poles"])
