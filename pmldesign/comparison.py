"""Strategies side by side: what each costs in error on the same workload.

A strategy is named: "optimal" designs one for each p, every other name is a baseline, and a
Strategy stands for itself. Without a guarantee the noise has scale equal to the strategy's
sensitivity, so that errors compare strategies; with one it is calibrated, and errors are those of
the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pmldesign._arguments import exponent
from pmldesign.design import Design, design
from pmldesign.errors import InvalidInputError
from pmldesign.guarantees import Guarantee
from pmldesign.mechanism import Mechanism, NoiseChoice, mechanism, require_feasible
from pmldesign.neighbours import Neighbours
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import Workload, as_workload
from pmldesign_solvers.solution import Callback, Status

OPTIMAL = "optimal"


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy at one p.

    Attributes:
        strategy: its name.
        p: of the l_p^p error.
        noise: "gaussian" or "laplace".
        sensitivity: largest distance between the measurements of neighbours, l2 for Gaussian
            noise and l1 for Laplace noise.
        scale: of the noise on every measurement.
        error: exact l_p^p error, (E norm(M(x) - A x)_p^p)^(1/p); at p = inf `max_std`.
        rmse: root mean squared error of a query.
        max_std: largest standard deviation of a query.
        ratio: error over the smallest error at the same p.
    """

    strategy: str
    p: float
    noise: str
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
        guarantee: what the noise was calibrated to; None for a scale equal to the sensitivity.
        rows: one for every p and strategy; only up to the p whose design was interrupted.
        designs: what "optimal" stood for, by p.
    """

    workload: Workload
    guarantee: Guarantee | None
    rows: tuple[Row, ...]
    designs: dict[float, Design]


def compare(
    workload: Any,
    strategies: Iterable[str | Strategy],
    *,
    p: float | Sequence[float] = 2.0,
    guarantee: Guarantee | None = None,
    noise: NoiseChoice = "auto",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    rel_gap: float = 1e-6,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Comparison:
    """Compare strategies on a workload.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        strategies: names ("optimal", "tree", "haar", "identity", "workload", "square-root",
            "tree:4") or strategies, in the order of the rows.
        p: one or several values in [2, inf].
        guarantee: calibrate the noise to this; None for a scale equal to the sensitivity.
        noise: "gaussian", "laplace", or "auto" for the better one of those that can meet the
            guarantee, for each strategy and p (Gaussian without a guarantee).
        neighbours: "add-remove" or "replace", where there is no guarantee to say it.
        rel_gap: of every design made here.
        time_limit: of every design made here, in seconds.
        callback: called with every `Step` of a design.

    Raises:
        InvalidInputError: an unknown name, a strategy that cannot answer the workload (the first
            row that it cannot answer is named), or an argument out of range.
        InfeasibleError, VacuousGuaranteeError: as in `mechanism`.
    """
    workload = as_workload(workload)
    values = [exponent(value) for value in (p if isinstance(p, Sequence) else [p])]
    relation = Neighbours(neighbours) if guarantee is None else guarantee.neighbours
    asked = [entry if entry == OPTIMAL else _strategy(entry, workload) for entry in strategies]
    if not asked or not values:
        raise InvalidInputError("nothing to compare: give at least one strategy and one p")

    def with_noise(strategy: Strategy, p: float) -> Mechanism:
        return mechanism(
            strategy, workload, guarantee=guarantee, noise=noise, p=p, neighbours=relation
        )

    # what does not depend on a design is refused before any long work
    fixed = {
        (index, value): with_noise(entry, value)
        for index, entry in enumerate(asked)
        if isinstance(entry, Strategy)
        for value in values
    }
    if OPTIMAL in asked:
        for value in values:
            require_feasible(guarantee, workload.shape[1], noise=noise, p=value)
    rows: list[Row] = []
    designs: dict[float, Design] = {}
    for value in values:
        if OPTIMAL in asked:
            designs[value] = design(
                workload,
                p=value,
                neighbours=relation,
                rel_gap=rel_gap,
                time_limit=time_limit,
                callback=callback,
            )
        group = [
            as_row(entry.name, value, fixed[index, value])
            if isinstance(entry, Strategy)
            else as_row(OPTIMAL, value, with_noise(designs[value].strategy, value))
            for index, entry in enumerate(asked)
        ]
        rows += with_ratios(group)
        if value in designs and designs[value].status is Status.INTERRUPTED:
            break  # whoever pressed Ctrl-C does not want the next design
    return Comparison(workload, guarantee, tuple(rows), designs)


def _strategy(entry: str | Strategy, workload: Workload) -> Strategy:
    return baseline(entry, workload) if isinstance(entry, str) else entry


def with_ratios(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with their errors set against the smallest one."""
    best = min(row.error for row in rows)
    return tuple(replace(row, ratio=row.error / best if best > 0 else 1.0) for row in rows)


def as_row(name: str, p: float, made: Mechanism) -> Row:
    """A mechanism as a row, not yet compared."""
    return Row(
        strategy=name,
        p=p,
        noise=made.noise.value,
        sensitivity=made.sensitivity,
        scale=made.scale,
        error=made.error(p),
        rmse=made.rmse,
        max_std=made.max_std,
        ratio=1.0,
    )
