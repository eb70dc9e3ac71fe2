r"""alpha from a public sample: limits for all cells and an l1 ball that hold together.

N independent records of the population that the secret records come from, x_j of them in cell j.
With probability at least `confidence` = 1 - beta the distribution q of a record lies in the set

    q_j >= L_j for all cells,     |q - x/N|_1 <= rho,

which fail with their parts of beta, for every q and every N.

Limits. x_j is binomial, whatever the other cells do. L_j is the p at which x_j or more have
probability beta_j = (1 - BALL) beta/k: the beta_j quantile of (x_j, N - x_j + 1), 0 for a cell that
was never seen [CP]. Counts of a multinomial are negatively associated [JP], so that the product of
the k probabilities bounds that of all limits from above, not from below: the union bound is safe.

Ball. P(|q - x/N|_1 > rho) <= (2^k - 2) e^(-N rho^2/2) = BALL beta, by Hoeffding's inequality for
every set of cells [WOSVW]. As 2^k - 2 counts more than beta does, BALL is small: it leaves the
limits about as they are without the ball.

References:
    [CP] Clopper and Pearson (1934), The use of confidence or fiducial limits illustrated in the
        case of the binomial.
    [JP] Joag-Dev and Proschan (1983), Negative association of random variables with applications.
    [WOSVW] Weissman, Ordentlich, Seroussi, Verdu and Weinberger (2003), Inequalities for the L1
        deviation of the empirical distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.arguments import doubles, probability, real_numbers
from pmldesign.errors import InvalidInputError

BALL = 0.05
"""Part of the probability of failure that is the ball's."""
LOWERED = 1e-9
"""Limits are lowered by this part of them: the quantile is off by less, up to 2^53 records."""


class SampledAlpha(tuple[float, ...]):
    """Least probabilities of cells, and the ball around the frequencies in a public sample.

    Attributes:
        counts: records of the sample in each cell.
        confidence: probability, over samples, that all limits and the ball hold.
        radius: l1 distance of the probabilities from the frequencies, at most.
        share: of the distribution that they describe; the rest can be anywhere.
    """

    counts: tuple[int, ...]
    confidence: float
    radius: float
    share: float

    def __new__(
        cls, limits: Any, counts: Any, confidence: float, radius: float, share: float = 1.0
    ) -> SampledAlpha:
        """The limits with their origin."""
        alpha = super().__new__(cls, limits)
        alpha.counts, alpha.confidence = tuple(counts), confidence
        alpha.radius, alpha.share = radius, share
        return alpha

    def __reduce__(self) -> Any:
        return SampledAlpha, (tuple(self), self.counts, self.confidence, self.radius, self.share)

    @property
    def records(self) -> int:
        """Number of records of the sample."""
        return sum(self.counts)

    def shrunk(self, share: float) -> SampledAlpha:
        """The same of a share of the distribution."""
        limits = [share * limit for limit in self]
        return SampledAlpha(limits, self.counts, self.confidence, self.radius, share * self.share)

    def to_json(self) -> dict[str, Any]:
        """Where the limits come from, as numbers."""
        return {
            "records": self.records,
            "confidence": self.confidence,
            "radius": self.radius,
            "counts": list(self.counts),
        }


def sampled_alpha(counts: ArrayLike, confidence: float = 0.99) -> SampledAlpha:
    """What a public sample says about the probabilities of all cells, as `alpha` of a guarantee.

    Args:
        counts: how many records of the sample fall into each cell, shape (k,), whole numbers.
        confidence: probability with which all limits and the ball hold, in (0, 1).

    Returns:
        k limits with a sum below 1, 0 for a cell without a record, and the radius of the ball.

    Raises:
        InvalidInputError: counts that are negative, no whole numbers, or all 0; a confidence out of
            range.
    """
    confidence = probability("confidence", confidence)
    values = doubles(real_numbers("counts", counts))
    if values.ndim != 1 or values.size < 2:
        raise InvalidInputError(
            f"counts must be one number for each of at least 2 cells, got shape {values.shape}"
        )
    wrong = np.flatnonzero(~((values >= 0) & (values == np.rint(values)) & (values <= 2.0**53)))
    if wrong.size:
        raise InvalidInputError(
            f"counts must be whole numbers from 0 to 2^53, got {values[wrong[0]]:g} for cell"
            f" {wrong[0]}"
        )
    cells, records = values.size, float(values.sum())
    if records == 0:
        raise InvalidInputError("counts must have a record: without any there is no limit")
    failure = 1.0 - confidence
    seen = np.maximum(values, 1.0)
    quantiles = scipy.special.betaincinv(seen, records - seen + 1.0, (1.0 - BALL) * failure / cells)
    limits = np.where(values > 0, quantiles * (1.0 - LOWERED), 0.0)
    log_sets = math.log(2.0) + (cells - 1) * math.log(2.0) + math.log1p(-(2.0 ** (1 - cells)))
    radius = math.sqrt(2 / records * (log_sets - math.log(BALL * failure))) * (1.0 + LOWERED)
    return SampledAlpha(limits.tolist(), values.astype(np.int64).tolist(), confidence, radius)


def sampled_from_json(alpha: list[float], sample: Any) -> SampledAlpha:
    """Alpha with the confidence that it has, from its limits and what `to_json` made.

    Raises:
        InvalidInputError: they do not go together.
    """
    keys = ("records", "confidence", "radius", "counts")
    if not isinstance(sample, Mapping) or set(sample) != set(keys):
        raise InvalidInputError(
            f"the sample of an alpha has {', '.join(keys)}, got {sample!r:.200}"
        )
    limits = sampled_alpha(sample["counts"], sample["confidence"])
    same = len(alpha) == len(limits) and np.allclose(alpha, limits, rtol=1e-9, atol=0)
    if not same or not math.isclose(sample["radius"], limits.radius):
        raise InvalidInputError("alpha is not what the counts of its sample give")
    return SampledAlpha(alpha, limits.counts, limits.confidence, sample["radius"])
