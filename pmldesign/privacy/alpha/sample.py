r"""alpha from a public sample: simultaneous lower confidence limits for the cells' probabilities.

N independent records of the population that the secret records come from, x_j of them in cell j:
x_j is binomial, whatever the other cells do. The limit of cell j is the p at which x_j or more have
probability beta = (1 - confidence)/k,

    L(x) = the beta quantile of (x, N - x + 1) at beta,

0 for a cell that was never seen [CP]. P(L(x_j) > p_j) <= beta for every p_j, and the union bound
gives P(L(x_j) <= p_j for all j) >= confidence, for every distribution and every number of records.
Counts of a multinomial are negatively associated [JP], so that the product of the k probabilities
bounds that from above, not from below: the union bound is the one that is safe.

References:
    [CP] Clopper and Pearson (1934), The use of confidence or fiducial limits illustrated in the
        case of the binomial.
    [JP] Joag-Dev and Proschan (1983), Negative association of random variables with applications.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from pmldesign.arguments import probability
from pmldesign.errors import InvalidInputError

LOWERED = 1e-9
"""Limits are lowered by this part of them: the quantile is off by less, up to 2^53 records."""


class SampledAlpha(tuple[float, ...]):
    """Least probabilities of cells that hold with a stated confidence.

    Attributes:
        records: number of records of the public sample.
        confidence: probability, over samples, that all limits hold.
    """

    records: int
    confidence: float

    def __new__(cls, limits: Any, records: int, confidence: float) -> SampledAlpha:
        """The limits with where they come from."""
        alpha = super().__new__(cls, limits)
        alpha.records, alpha.confidence = records, confidence
        return alpha

    def __reduce__(self) -> Any:
        return SampledAlpha, (tuple(self), self.records, self.confidence)


def sampled_alpha(counts: ArrayLike, confidence: float = 0.99) -> SampledAlpha:
    """Simultaneous lower confidence limits for the probabilities of all cells.

    Args:
        counts: how many records of the sample fall into each cell, shape (k,), whole numbers.
        confidence: probability with which all limits hold, in (0, 1).

    Returns:
        k limits with a sum below 1, as `alpha` of a guarantee; 0 for a cell without a record.

    Raises:
        InvalidInputError: counts that are negative, no whole numbers, or all 0; a confidence out of
            range.
    """
    confidence = probability("confidence", confidence)
    values = np.asarray(counts, dtype=np.float64)
    if values.ndim != 1 or values.size < 2:
        raise InvalidInputError(
            f"counts must be one number for each of at least 2 cells, got shape {values.shape}"
        )
    wrong = np.flatnonzero(~((values >= 0) & (values == np.rint(values)) & (values <= 2.0**53)))
    if wrong.size:
        raise InvalidInputError(
            f"counts must be whole numbers, 0 or more, got {values[wrong[0]]:g} for cell {wrong[0]}"
        )
    records = float(values.sum())
    if records == 0:
        raise InvalidInputError("counts must have a record: without any there is no limit")
    seen = np.maximum(values, 1.0)
    quantiles = betaincinv(seen, records - seen + 1.0, (1.0 - confidence) / values.size)
    limits = np.where(values > 0, quantiles * (1.0 - LOWERED), 0.0)
    return SampledAlpha(limits.tolist(), int(records), confidence)
