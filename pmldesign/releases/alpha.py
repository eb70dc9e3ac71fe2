"""Does a published table contradict alpha, on which a guarantee under PML rests?

A query that counts the records in some cells has a probability of at least a, the sum of the alpha
of these cells. If each record is drawn by itself, its count X among N records is at most u with a
probability of at most P(Bin(N, a) <= u). With u the upper end of an interval for X and N the number
of records, or the lower end of an interval for it, both at a level that DOUBTED leaves open, a
table with a tail below DOUBTED is doubted. The check is a function of the published numbers.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.guarantees import Guarantee
from pmldesign.releases.result import Release
from pmldesign.workloads import Workload

DOUBTED = 1e-6
"""Probability of a warning although alpha is right."""


def alpha_doubts(release: Release, guarantee: Guarantee, queries: Workload) -> str:
    """Why a table contradicts alpha; "" if it does not, or without alpha.

    Args:
        release: the table, with its measurements.
        guarantee: of the release.
        queries: those of the table, linear ones.
    """
    table, measured, m = release.table, release.measurements, queries.shape[0]
    if not guarantee.pml or measured is None or not queries.binary or len(table.estimate) != m:
        return ""
    alpha = np.broadcast_to(np.asarray(getattr(guarantee, "alpha", 0.0)), queries.shape[1:])
    least = np.minimum(queries.matvec(alpha.astype(np.float64)), 1.0)
    level = 1 - DOUBTED / (4 * m)
    with suppress(InvalidInputError):  # the number of records is not determined
        if measured.public is not None:
            records = int(measured.public.total)
        else:
            total = measured.ask(f"total:{queries.shape[1]}", level=level).table
            records = max(0, math.floor(float(total.lower[0])))
        most = np.floor(np.maximum(measured.ask(queries, level=level).table.upper, 0.0))
        tails = np.asarray(scipy.stats.binom.cdf(most, records, least))
        place = int(np.argmin(tails))
        if tails[place] < DOUBTED / (2 * m):
            label = ", ".join(f"{name}={values[place]}" for name, values in table.labels.items())
            return (
                f"the table contradicts alpha: {label} has at most {most[place]:.6g} of"
                f" {records} records, and its probability should be at least {least[place]:.3g};"
                " the guarantee does not hold for such data, so use a smaller alpha"
            )
    return ""
