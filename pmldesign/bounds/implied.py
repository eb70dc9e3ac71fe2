r"""What a guarantee says about additive noise: the (epsilon, delta) of one step.

Additive noise z is private with one step v = A (x - x') if the laws of z and z + v satisfy
P(E) <= e^eps Q(E) + delta both ways. DP says so directly, with the neighbours' steps.

PML speaks of records drawn from Q_alpha, and with many records the randomness of the others does
part of the hiding: for a given number of records it implies no such thing (docs/bounds.md). It
does for noise that serves every number of records, one included. With one record let
M = max_r P_r(E), s the class with the smallest P_s(E) and b = sum of alpha without its smallest
entry. The prior with alpha on every class but s gives M <= e^eps ((1 - b) P_s(E) + b M) + delta,

    e^eps' = e^eps (1 - b)/(1 - b e^eps),    delta' = delta/(1 - b e^eps),    if b e^eps < 1.

An envelope bounds P(E) <= delta for every event with P_r(E) > e^eps P(E), so that
P_r(E) - e^eps P(E) <= delta (1/alpha_r - e^eps): slack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pmldesign.guarantees import ApproxDP, ApproxPML, EnvelopePML, Guarantee, PureDP

EPS = 2.0**-52


@dataclass(frozen=True, slots=True)
class Shifts:
    """epsilon and delta of one step of the neighbouring relation, rounded up.

    Attributes:
        epsilon: positive.
        delta: in [0, 1).
    """

    epsilon: float
    delta: float


def implied_shifts(guarantee: Guarantee, cells: int) -> Shifts | None:
    """The (epsilon, delta) of one step; None if the guarantee implies none.

    Args:
        guarantee: DP, or PML that has to hold for every number of records.
        cells: number of cells k, for alpha.

    Raises:
        InvalidInputError: alpha does not fit the number of cells.
    """
    if isinstance(guarantee, PureDP):
        return Shifts(guarantee.epsilon, 0.0)
    if isinstance(guarantee, ApproxDP):
        return Shifts(guarantee.epsilon, guarantee.delta)
    least = guarantee.least_probability(cells)
    if guarantee.epsilon >= -math.log(least):
        return None
    growth = math.exp(guarantee.epsilon)
    if isinstance(guarantee.alpha, float):
        others, terms = least * (cells - 1), 1
    else:
        others, terms = float(guarantee.class_probabilities(cells).sum() - least), cells
    room = 1 - others * growth * (1 + (terms + 8) * EPS)
    if room <= 0:
        return None
    delta = 0.0
    if isinstance(guarantee, ApproxPML):
        delta = guarantee.delta
    elif isinstance(guarantee, EnvelopePML):
        delta = guarantee.delta * (1 / least - growth) * (1 + 8 * EPS)
    delta *= (1 + 8 * EPS) / room
    epsilon = guarantee.epsilon + math.log1p(-others) - math.log(room)
    return Shifts(epsilon * (1 + 8 * EPS) + 8 * EPS, delta) if delta < 1 else None
