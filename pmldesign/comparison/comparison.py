"""Strategies side by side: the error of each, over workloads, p and guarantees.

A strategy is named: "design" is the best mechanism that `optimize` finds for each p and guarantee,
"least-norm" the strategy of least norm for each p, every other name is a baseline, and a Strategy
stands for itself. Without a guarantee the noise has scale equal to the strategy's
sensitivity, so that errors compare strategies; with one it is calibrated, and errors are those of
the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Unpack

from pmldesign.arguments import exponent, flags, instance, listed
from pmldesign.comparison.own import OwnMechanism
from pmldesign.comparison.parallel import Workers, run_all
from pmldesign.comparison.tables import Entry, Filled, Table
from pmldesign.designs.baselines import Baselines
from pmldesign.designs.options import DesignArguments, DesignOptions, takes_options
from pmldesign.designs.questions import Question
from pmldesign.designs.results import Design
from pmldesign.designs.rows import Row
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import with_known
from pmldesign.mechanisms import NoiseChoice
from pmldesign.privacy.guarantees import Guarantee, require_guarantee
from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.outward import of_scale, shortest
from pmldesign.strategies import StrategyLike, as_strategy
from pmldesign.workloads import Workload, WorkloadLike
from pmldesign.workloads.display import Drawn, data_frame, html_table, latex_table


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(Drawn):
    """Rows in the order of p, then of the strategies as asked for.

    Attributes:
        workload: the queries.
        guarantee: for which the noise was calibrated; None for a scale equal to the sensitivity.
        rows: one for every p and strategy; after Ctrl-C, for every p that was finished.
        designs: the strategy of least norm by p, if "design" or "least-norm" was asked for.
        left_out: why strategies are missing, if that was allowed.
        interrupted: whether Ctrl-C ended the work early.
    """

    workload: Workload
    guarantee: Guarantee | None
    rows: tuple[Row, ...]
    designs: dict[float, Design]
    left_out: tuple[str, ...] = ()
    interrupted: bool = False

    def to_records(self) -> list[dict[str, Any]]:
        """A dictionary for every row, all columns: the input of a data frame."""
        return [row.to_record() for row in self.rows]

    def to_frame(self) -> Any:
        """A data frame of all columns: of pandas if it is installed, else of polars.

        Raises:
            InvalidInputError: neither is installed.
        """
        return data_frame(self.to_records())

    def to_latex(self) -> str:
        """The rows as a LaTeX table (booktabs)."""
        return latex_table(*self._table())

    def __repr__(self) -> str:
        best = min(self.rows, key=lambda row: row.error)
        promise = "no guarantee" if self.guarantee is None else repr(self.guarantee)
        return (
            f"Comparison on {self.workload.name!r} under {promise}: {len(self.rows)} rows\n"
            f"  best {best.strategy!r} with {best.noise} noise,"
            f" err_{shortest(best.p)} {best.error:.6g}"
        )

    def _repr_html_(self) -> str:
        header, rows = self._table()
        return html_table(f"Comparison on {self.workload.name}", rows, header)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, as text."""
        rows = [
            [row.strategy, shortest(row.p), row.noise, of_scale(row.scale)]
            + [f"{value:.6g}" for value in (row.error, row.rmse)]
            + ["-" if row.max_std is None else f"{row.max_std:.6g}"]
            + [f"{row.ratio:.4f}"]
            for row in self.rows
        ]
        header = ["strategy", "p", "noise", "scale", "error", "rmse", "max std", "ratio"]
        return header, rows


@takes_options
def compare(
    workload: WorkloadLike,
    guarantee: Guarantee | None = None,
    *,
    strategies: Iterable[StrategyLike | OwnMechanism],
    p: float | Sequence[float] = 2.0,
    noise: NoiseChoice = "auto",
    known: WorkloadLike | None = None,
    **options: Unpack[DesignArguments],
) -> Comparison:
    """Compare strategies on one workload under one guarantee, or none.

    Args:
        workload: a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        guarantee: the noise is calibrated to it; None for a scale equal to the sensitivity.
        strategies: names ("design", "least-norm", those of baselines, "tree:4",
            "weighted-tree:4"), strategies, factorizations, mechanisms, matrices, or mechanisms of
            your own (`OwnMechanism`), in the order of the rows.
        p: one or several values in [2, inf].
        noise: "gaussian", "laplace", or "auto" for the better one of those that can meet the
            guarantee, for each strategy and p (Gaussian without a guarantee).
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        options: of every design made here, as for `factorize`.

    Returns:
        The comparison; after Ctrl-C with the finished rows.

    Raises:
        InvalidInputError: an unknown name, a strategy that cannot answer the workload (the first
            row that it cannot answer is named), or an argument out of range.
        InfeasibleError, VacuousGuaranteeError: as in `mechanism`.
    """
    return compare_all(
        [workload],
        strategies,
        p=p,
        guarantees=[guarantee],
        noise=noise,
        known=known,
        **options,
    )[0]


@takes_options
def compare_all(
    workloads: Iterable[WorkloadLike],
    strategies: Iterable[StrategyLike | OwnMechanism],
    *,
    p: float | Sequence[float] = 2.0,
    guarantees: Sequence[Guarantee | None] = (None,),
    noise: NoiseChoice = "auto",
    leave_out: bool = False,
    jobs: int = 1,
    announce: Callable[[str], None] | None = None,
    known: WorkloadLike | None = None,
    **options: Unpack[DesignArguments],
) -> tuple[Comparison, ...]:
    """Compare strategies on every workload, at every p, under every guarantee.

    Args:
        workloads: each a Workload, a name such as "prefix:64", or a matrix of shape (m, n).
        strategies: names ("design", "least-norm", those of `BASELINES`, "tree:4",
            "weighted-tree:4"), strategies, factorizations, mechanisms, matrices, or mechanisms of
            your own (`OwnMechanism`), in the order of the rows.
        p: one or several values in [2, inf].
        guarantees: the noise is calibrated to each; None for a scale equal to the sensitivity.
        noise: "gaussian", "laplace", or "auto" for the better one of those that can meet the
            guarantee, for each strategy and p (Gaussian without a guarantee).
        leave_out: leave out strategies that cannot answer a workload, or are too large for it, and
            list them in `Comparison.left_out`; otherwise they are an error.
        jobs: number of processes; more than one needs joblib (the jobs extra).
        announce: called with a line of text after every piece of work.
        known: queries whose answers are public and not protected: "total", or whatever
            `as_workload` takes; neighbours are then "replace" and leave the answers as they are.
        options: of every design made here, as for `factorize`; the callback is for those made in
            this process.

    Returns:
        One comparison for each workload and guarantee, the guarantees of a workload together.
        Ctrl-C ends the work with the finished comparisons, including a design that it stopped;
        KeyboardInterrupt is raised only if nothing is finished.

    Raises:
        InvalidInputError: an unknown name, a strategy that cannot answer a workload (the first
            row that it cannot answer is named), or an argument out of range.
        InfeasibleError, VacuousGuaranteeError: as in `mechanism`.
    """
    workloads, strategies = listed("workloads", workloads), listed("strategies", strategies)
    guarantees = listed("guarantees", guarantees)
    flags(leave_out=leave_out)
    if announce is not None:
        instance("announce", announce, Callable, "a function of a text")
    for promise in guarantees:
        if promise is not None:
            require_guarantee(promise)
    entries: list[Entry] = [
        entry if isinstance(entry, str | OwnMechanism) else as_strategy(entry)
        for entry in strategies
    ]
    queries = [with_known(workload, None, known)[0] for workload in workloads]
    if known is not None and queries:
        options["neighbours"], public = Neighbours.REPLACE, queries[0].public
        guarantees = [promise and promise.beside(public) for promise in guarantees]
    values = [exponent(value) for value in (p if isinstance(p, Sequence) else [p])]
    if not (entries and values and queries and guarantees):
        raise InvalidInputError("nothing to compare: give at least one strategy and one p")
    limits, workers = DesignOptions.of(options), Workers(jobs)
    if not workers.here:
        limits = replace(limits, callback=None)
    places, tables = [], []
    for w, workload in enumerate(queries):
        about = limits.about(workload)
        for relation, indices in _by_relation(guarantees, about).items():
            baselines = Baselines(workload, relation, about.schema)
            for value in values:
                asked = [Question(workload, value, guarantees[g], noise, about) for g in indices]
                table = Table(tuple(asked), tuple(entries), baselines, leave_out, leave_out)
                tables.append(replace(table, last=value == values[-1]))
                places.append((w, indices))
    done, interrupted = _filled(tables, workers, announce)
    comparisons = []
    for w, g in product(range(len(queries)), range(len(guarantees))):
        rows = [
            (filled, places[index][1].index(g))
            for index, filled in sorted(done.items())
            if places[index][0] == w and g in places[index][1]
        ]
        comparisons.append(
            _assembled(queries[w], guarantees[g], len(entries), rows, interrupted=interrupted)
        )
    if interrupted:
        comparisons = [comparison for comparison in comparisons if comparison.rows]
        if not comparisons:
            raise KeyboardInterrupt
    return tuple(comparisons)


def _filled(
    tables: Sequence[Table], workers: Workers, announce: Callable[[str], None] | None
) -> tuple[dict[int, Filled], bool]:
    """The tables that are finished, by their index, and whether Ctrl-C ended the work."""
    done: dict[int, Filled] = {}
    try:
        with closing(run_all(tables, workers)) as results:
            for index, filled in results:
                done[index] = filled
                if announce is not None:
                    announce(f"table {len(done)} of {len(tables)} is done")
                if filled.interrupted:
                    return done, True
    except KeyboardInterrupt:
        return done, True
    return done, False


def _by_relation(
    guarantees: Sequence[Guarantee | None], options: DesignOptions
) -> dict[Neighbours, list[int]]:
    """The guarantees, by index, of every relation of neighbours."""
    indices: dict[Neighbours, list[int]] = {}
    for index, promise in enumerate(guarantees):
        relation = options.neighbours if promise is None else promise.neighbours
        indices.setdefault(relation, []).append(index)
    return indices


def _assembled(
    workload: Workload,
    guarantee: Guarantee | None,
    entries: int,
    tables: Sequence[tuple[Filled, int]],
    *,
    interrupted: bool,
) -> Comparison:
    """The comparison of one workload under one guarantee.

    Args:
        workload: the queries.
        guarantee: the promise, or None.
        entries: how many strategies are asked for.
        tables: at each p, each with the index of the guarantee there.
        interrupted: whether Ctrl-C ended the work early.

    Raises:
        InvalidInputError: no strategy can answer the workload.
    """
    reasons = (reason for table, _ in tables for reason in table.left_out.values())
    left_out = tuple(dict.fromkeys(reasons))
    if tables and all(len(table.left_out) == entries for table, _ in tables):
        raise InvalidInputError(left_out[0])
    groups = [(table.group(g, entries, workload), table.design) for table, g in tables]
    designs = {
        group[0].p: replace(design, workload=workload)
        for group, design in groups
        if group and design is not None
    }
    rows = tuple(row for group, _ in groups for row in group)
    return Comparison(workload, guarantee, rows, designs, left_out, interrupted)
