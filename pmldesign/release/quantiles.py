r"""Quantiles of an attribute from what was released: "age=0.25,0.5,0.75".

The q-quantile is the first value t with F(t) >= q N, F the running sums over the attribute and N
the number of records, which need not be public: the statistics are D(t) = F(t) - q N, linear in the
histogram. With intervals around all D(t) that hold together, the quantile lies between the first t
whose interval reaches 0 and the first whose interval is not below 0; the estimate is the first t
with D(t) >= 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.release.intervals import half_widths
from pmldesign.release.noise.law import AnswerNoise
from pmldesign.release.people.schema import Schema
from pmldesign.workloads import DenseWorkload, Workload
from pmldesign.workloads.base import check_entries
from pmldesign_solvers.operators.operator import Array


@dataclass(frozen=True, eq=False)
class Band:
    """One quantile, before the data are read.

    Attributes:
        attribute: its name.
        q: in (0, 1).
        labels: of the values.
        workload: D(t) for all values t but the last.
        widths: of the intervals that hold together.
    """

    attribute: str
    q: float
    labels: tuple[str, ...]
    workload: Workload
    widths: Array

    def read(self, cells: Array) -> dict[str, str | float]:
        """The row of the table for an estimate of the histogram."""
        values = self.workload.matvec(cells)
        places = [_first(values + shift) for shift in (0.0, self.widths, -self.widths)]
        estimate, lower, upper = (self.labels[place] for place in places)
        row: dict[str, str | float] = {"attribute": self.attribute, "quantile": self.q}
        return row | {"estimate": estimate, "lower": lower, "upper": upper}


def bands(
    noise: AnswerNoise, schema: Schema, asked: Mapping[str, Sequence[float]], level: float
) -> list[Band]:
    """What is needed of each quantile that is asked for.

    Raises:
        InvalidInputError: no such attribute, q out of range, or the strategy does not tell.
    """
    return [
        _band(noise, schema, name, q, level) for name, quantiles in asked.items() for q in quantiles
    ]


def parse_quantiles(text: str) -> tuple[str, tuple[float, ...]]:
    """The attribute and the quantiles that "age=0.25,0.5" means.

    Raises:
        InvalidInputError: something else is written, or out of range.
    """
    name, equals, numbers = (part.strip() for part in text.partition("="))
    try:
        values = tuple(float(part) for part in numbers.split(","))
    except ValueError:
        values = ()
    if not equals or not values or not all(0 < q < 1 for q in values):
        raise InvalidInputError(
            f"--quantiles is written as age=0.25,0.5,0.75, numbers in (0, 1); got {text[:60]!r}"
        )
    return name, values


def _band(noise: AnswerNoise, schema: Schema, name: str, q: float, level: float) -> Band:
    if name not in schema.names:
        raise InvalidInputError(
            f"--quantiles: the schema has no attribute {name!r}; it has {', '.join(schema.names)}"
        )
    place = schema.names.index(name)
    size, sizes = schema.sizes[place], schema.sizes
    attribute = schema.attributes[place]
    attribute.require_order("quantiles")
    if attribute.denominator > 1:
        raise InvalidInputError(
            f"--quantiles: {name!r} has numbers, which count for sums; for quantiles give an "
            "attribute cuts without low and high"
        )
    if attribute.outside not in ("refuse", "drop"):
        raise InvalidInputError(
            f"--quantiles: the values that {attribute.outside!r} takes have no place in the order "
            f'of {name!r}; add "outside": "refuse" or "drop" to this attribute in the schema'
        )
    labels = attribute.labels
    if size == 1:
        raise InvalidInputError(f"--quantiles: attribute {name!r} has one value")
    check_entries(f"the quantiles of {name!r}", (size - 1, schema.cells))
    shape = [1] * len(sizes)
    shape[place] = size
    rows = [
        np.broadcast_to(step.reshape(shape), sizes).ravel()
        for step in np.tril(np.ones((size, size)))[:-1] - q
    ]
    matrix = np.array(rows)[:, slice(None) if schema.possible is None else schema.possible]
    queries: Workload = DenseWorkload(matrix, name=f"quantile {q:g} of {name}", copy=False)
    noise_of_sums = noise.answering(queries)
    try:
        noise.factorization.strategy.require_answers(noise_of_sums.factorization.workload)
    except InvalidInputError:
        raise InvalidInputError(
            f"--quantiles: the strategy does not tell {name!r} from the other attributes; add it "
            "to the queries"
        ) from None
    widths = half_widths(noise_of_sums, level, simultaneous=True)
    return Band(name, q, labels, queries, widths)


def _first(values: Array) -> int:
    """The first place with a value of at least 0, or the one after the last."""
    reached = np.flatnonzero(values >= -1e-9 * max(1.0, math.sqrt(float(values @ values))))
    return int(reached[0]) if reached.size else len(values)
