"""The document of `pmldesign target`: the least budget, and those of the usual strategies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmldesign.cli.documents import parts
from pmldesign.cli.documents.comparison import shown_rows
from pmldesign.cli.documents.document import Document, Picture, Section, Table, records
from pmldesign.cli.documents.parts import Said
from pmldesign.designs.targets.least import BudgetRow, LeastBudget
from pmldesign.privacy.outward import at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGE_GAP = 1e-2
"""Beyond, bounds say little about how far the design is from the best."""


def usual_budgets(budget: LeastBudget, announce: Callable[[str], None]) -> list[BudgetRow]:
    """The budgets of the usual strategies; a note on stderr says why one is missing."""
    return [*shown_rows(budget.usual, announce, budget.row, budget.deadline)]


class Needed:
    """The document of a least budget, shown piece by piece.

    Args:
        budget: the result.
        output: where the strategy is written.
        at_alpha: the least probability of --at-alpha.
    """

    def __init__(self, budget: LeastBudget, output: Path | None, at_alpha: float | None) -> None:
        self.budget, self.output = budget, output
        self.said = Said(budget.mechanism, at_alpha)
        self.shares = parts.shares_data(budget.design, budget.mechanism.noise)

    def section(self) -> Section:
        """The answer, and the mechanism."""
        budget, noisy = self.budget, self.budget.mechanism
        assert noisy.guarantee is not None
        errors = f"rmse {noisy.rmse:.6g}, max std {noisy.max_std:.6g}"
        share = f"the tightest query has {100 * budget.tightest:.4f} % of its target"
        gap = f"; gap {budget.gap:.1e}" if math.isfinite(budget.gap) else ""
        if budget.gap > LARGE_GAP:
            gap = "; the least lies between the two"
        least = f"{at_most(budget.at_least, 10)} for {budget.bounded}"
        return Section(
            facts=[
                parts.workload_fact(budget.workload),
                ("targets", budget.targets.describe()),
                (budget.name, f"{at_least(budget.enough, 10)} is enough"),
                ("at least", least + gap),
                *parts.promised(noisy.words),
                ("design", f"{self.said.noise_text}: {errors}; {share}"),
                *parts.shares_facts(self.shares),
                *self.said.facts(),
                *parts.written(self.output),
            ]
        )

    def document(self, rows: Sequence[BudgetRow]) -> Document:
        """The whole document; its summary follows the section."""
        budget = self.budget
        recorded = [{"name": row.name, "noise": row.noise, budget.name: row.budget} for row in rows]
        table = Table(
            ["strategy", "noise", budget.name, "ratio"],
            [
                [row.name, row.noise, at_least(row.budget), f"{row.budget / budget.enough:.4f}"]
                for row in rows
            ],
            records=recorded,
        )
        return Document(
            data=self._data() | {"strategies": recorded},
            summary=[Section(tables=[table])],
            table=table,
            picture=self.said.picture,
            title=f"The least {budget.name} for {budget.workload.name}",
            page=lambda: [*self._page(recorded)],
        )

    def _data(self) -> dict[str, Any]:
        """The documented keys."""
        budget, noisy = self.budget, self.budget.mechanism
        return {
            **parts.workload_data(budget.workload),
            "targets": {
                "smallest": budget.targets.smallest,
                "largest": budget.targets.largest,
                "level": budget.targets.level,
            },
            "currency": budget.name,
            budget.name: self._bounds(),
            "neighbours": noisy.neighbours.value,
            "norm": parts.norm_data(budget.design),
            "status": budget.design.status.name.lower(),
            "seconds": budget.design.seconds,
            "noise": {"kind": noisy.noise_name, "scale": noisy.scale},
            "sensitivity": noisy.sensitivity,
            "tightest": budget.tightest,
            "rmse": noisy.rmse,
            "max_std": noisy.max_std,
            **self.said.data(),
            "budget_shares": self.shares,
            "output": self.output and str(self.output),
        }

    def _bounds(self) -> dict[str, float]:
        return {"enough": self.budget.enough, "at_least": self.budget.at_least}

    def _page(self, rows: Sequence[dict[str, Any]]) -> Iterator[Section]:
        budget, name = self.budget, self.budget.name

        def bars() -> Figure:
            from pmldesign.plots.designs import bars_figure

            needs = [(f"{row['name']} ({row['noise']})", row[name]) for row in rows]
            beyond = f"too little for {budget.bounded}"
            return bars_figure(needs, budget.at_least, name, beyond)

        yield Section(
            "What was asked",
            facts=[
                parts.workload_fact(budget.workload),
                ("targets", budget.targets.describe()),
                ("least", name),
                ("neighbours", budget.mechanism.neighbours.value),
            ],
        )
        yield Section(
            f"The least {name}",
            facts=[
                ("enough", at_least(budget.enough, 10)),
                *parts.at_least_facts(budget.bounded, "needs", budget.at_least),
            ],
            sentences=["With this budget every query is as accurate as was asked for."],
            tables=[records([{"budget": name, **self._bounds()}]), records(rows)],
            pictures=[Picture(bars, f"The {name} that every strategy needs for these accuracies.")],
        )
        yield self.said.guarantee_section()
        yield from self.said.sections()
        yield parts.certificate(
            budget.design.certificate,
            self.output,
            "The norm is that of the queries over their targets at p = inf. Its bounds were "
            "recomputed from the queries and the strategy alone, and the lower one says which "
            "budget is too little.",
            [("tightest query", f"has {100 * budget.tightest:.4f} % of its target")],
        )
