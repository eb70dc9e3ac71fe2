"""Strategies side by side: what each costs in error on the same workload.

A strategy is named: "optimal" designs one for each p, every other name is a baseline, and a
Strategy stands for itself. Without a guarantee the noise has standard deviation equal to the
strategy's sensitivity (a noise multiplier of 1, 1/2-zCDP), so that errors compare strategies; with
one it is calibrated, and errors are those of the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pmldesign._arguments import exponent
from pmldesign.calibration import analytic_gaussian_scale
from pmldesign.design import Design, design
from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import ApproxDP
from pmldesign.noise import (
    Noise,
    gaussian_error,
    largest_standard_deviation,
    root_mean_squared_error,
)
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import Workload, as_workload
from pmldesign_solvers.solution import Callback

OPTIMAL = "optimal"


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy at one p.

    Attributes:
        strategy: its name.
        p: of the l_p^p error.
        sensitivity: largest l2 distance between the measurements of neighbours.
        scale: standard deviation of the noise on every measurement.
        error: exact l_p^p error, (E norm(M(x) - A x)_p^p)^(1/p); at p = inf `max_std`.
        rmse: root mean squared error of a query.
        max_std: largest standard deviation of a query.
        ratio: error over the smallest error at the same p.
    """

    strategy: str
    p: float
    sensitivity: float
    scale: float
    error: float
    rmse: float
    max_std: float
    ratio: float

    def to_json(self) -> dict[str, Any]:
        """The row with the keys that the command line documents."""
        fields = asdict(self)
        return {"name": fields.pop("strategy"), **fields}


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Rows in the order of p, then of the strategies as asked for.

    Attributes:
        workload: what is answered.
        guarantee: what the noise was calibrated to; None for a noise multiplier of 1.
        rows: one for every p and strategy.
        designs: what "optimal" stood for, by p.
    """

    workload: Workload
    guarantee: ApproxDP | None
    rows: tuple[Row, ...]
    designs: dict[float, Design]


def compare(
    workload: Any,
    strategies: Iterable[str | Strategy | Design],
    *,
    p: float | Sequence[float] = 2.0,
    guarantee: ApproxDP | None = None,
    rel_gap: float = 1e-6,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Comparison:
    """Compare strategies on a workload under Gaussian noise.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        strategies: names ("optimal", "tree", "haar", "identity", "workload", "square-root",
            "tree:4"), strategies, or designs, in the order of the rows.
        p: one or several values in [2, inf].
        guarantee: calibrate the noise to this; None for a noise multiplier of 1.
        rel_gap: of every design made here.
        time_limit: of every design made here, in seconds.
        callback: called with every `Step` of a design.

    Raises:
        InvalidInputError: an unknown name, a strategy that cannot answer the workload (the first
            row that it cannot answer is named), or an argument out of range.
    """
    workload = as_workload(workload)
    values = [exponent(value) for value in (p if isinstance(p, Sequence) else [p])]
    asked = list(strategies)
    if not asked or not values:
        raise InvalidInputError("nothing to compare: give at least one strategy and one p")
    # What does not depend on p is built, and refused, before any long work.
    fixed = {i: _measured(entry, workload, guarantee) for i, entry in enumerate(asked)}
    rows: list[Row] = []
    designs: dict[float, Design] = {}
    for value in values:
        group = []
        for index, entry in enumerate(asked):
            measured = fixed[index]
            if measured is None:
                if value not in designs:
                    designs[value] = design(
                        workload, p=value, rel_gap=rel_gap, time_limit=time_limit, callback=callback
                    )
                measured = _measure(OPTIMAL, designs[value].strategy, workload, guarantee)
            group.append(measured.at(value))
            if isinstance(entry, Design):
                designs.setdefault(entry.p, entry)
        best = min(row.error for row in group)
        rows += [replace(row, ratio=row.error / best if best > 0 else 1.0) for row in group]
    return Comparison(workload, guarantee, tuple(rows), designs)


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """What the errors of a strategy at every p need."""

    name: str
    sensitivity: float
    scale: float
    variances: Any

    def at(self, p: float) -> Row:
        scaled = {"scale": self.scale}
        return Row(
            strategy=self.name,
            p=p,
            sensitivity=self.sensitivity,
            scale=self.scale,
            error=gaussian_error(self.variances, p=p, **scaled),
            rmse=root_mean_squared_error(self.variances, noise=Noise.GAUSSIAN, **scaled),
            max_std=largest_standard_deviation(self.variances, noise=Noise.GAUSSIAN, **scaled),
            ratio=1.0,
        )


def _measured(
    entry: str | Strategy | Design, workload: Workload, guarantee: ApproxDP | None
) -> _Measured | None:
    """Sensitivity, scale and variances of one entry; None for what is designed for each p."""
    if entry == OPTIMAL:
        return None
    if isinstance(entry, str):
        entry = baseline(entry, workload)
    strategy = entry.strategy if isinstance(entry, Design) else entry
    return _measure(strategy.name, strategy, workload, guarantee)


def _measure(
    name: str, strategy: Strategy, workload: Workload, guarantee: ApproxDP | None
) -> _Measured:
    sensitivity = strategy.sensitivity
    scale = sensitivity
    if guarantee is not None:
        scale = analytic_gaussian_scale(
            sensitivity, epsilon=guarantee.epsilon, delta=guarantee.delta
        )
    return _Measured(name, sensitivity, scale, strategy.variances(workload))
