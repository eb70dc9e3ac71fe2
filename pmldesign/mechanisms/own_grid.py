r"""Strategies whose measurements are whole numbers already, on their own grid.

If R is a number u > 0 times a matrix Z of whole numbers, Z x is whole without any rounding, and
discrete Laplace noise on it (`discrete`) has smaller errors than Laplace noise; no finer grid does
better. What is lost are the other currencies: the loss of one step of 1 is randomized response, and
epsilon alone is claimed. The gain is a matter of the parameter b in units of the grid, which is
D/epsilon for a sensitivity D of 1 or more: standard deviations are 0.96 times those of Laplace
noise at b = 1, 0.70 times at 1/3. Where it is less than LEAST_GAIN, up to an epsilon of 1 at least,
the own grid is for those who ask for it.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.discrete import discrete_error, variance
from pmldesign.privacy.guarantees import ApproxDP, PureDP
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy
from pmldesign.strategies.participation.persons import PersonRows
from pmldesign.strategies.participation.strategy import participation_of, person_rows
from pmldesign.workloads.base import WRITTEN_CELLS

if TYPE_CHECKING:
    from pmldesign.mechanisms.exact_error import Mechanism
    from pmldesign.strategies.whole.lattice import Lattice

LARGEST_ENTRY = 2**20
"""Of Z: beyond that the noise is many units wide, and a finer grid as good."""
MOST_ENTRIES = 2**23
"""Of R, which is written out."""
SAME = 1e-12
"""Relative error within which a quotient of entries counts as a whole number."""
LEAST_GAIN = 0.05
"""Of standard deviations, for which the own grid is taken unasked."""
LEAST_EPSILON = 1.0
"""Up to which the gain is less."""
BEYOND = 1e-9
"""Relative, by which the sensitivity on the grid may exceed the one that was calibrated for."""


def own_lattice(strategy: Strategy) -> Lattice | None:
    """R = u Z on the grid of Z; None where R is no such matrix, or too large to look.

    Raises:
        InvalidInputError: participation in the steps of a stream.
    """
    if strategy.cells > WRITTEN_CELLS or strategy.public:
        return None
    from pmldesign.strategies.whole.integers import times
    from pmldesign.strategies.whole.lattice import Lattice

    people = person_rows(strategy)
    if math.prod(strategy.shape) > MOST_ENTRIES:
        return None
    matrix = strategy.matrix
    sizes = np.abs(matrix)
    unit = float(sizes[sizes > 0].min())
    whole = np.rint(matrix / unit)
    if sizes.max() > LARGEST_ENTRY * unit or (np.abs(matrix - whole * unit) > SAME * sizes).any():
        return None
    measured = Strategy(strategy.name, whole * unit)
    rows = whole.astype(np.int64)
    units = np.full(len(rows), unit)
    return Lattice(measured, measured, units, partial(times, rows), rows, rows=people)


def grid_unit(mechanism: Mechanism) -> float:
    """The unit u of the grid of a mechanism with `own_grid`.

    Raises:
        InvalidInputError: it has no such grid, or noise that is not drawn there.
    """
    lattice = own_lattice(mechanism.strategy) if mechanism.noise is Noise.LAPLACE else None
    if lattice is None or mechanism.scale == 0:
        raise InvalidInputError(
            "own_grid is for Laplace noise on a strategy of whole numbers times a unit, such as"
            " counts or trees, with one record added or removed; leave it out"
        )
    return float(lattice.units[0])


def grid_deviation(mechanism: Mechanism, unit: float) -> float:
    """Standard deviation of the noise on a measurement, on a grid of this unit."""
    return unit * math.sqrt(variance(Noise.LAPLACE, mechanism.scale / unit, 1))


def grid_error(mechanism: Mechanism, unit: float, p: float) -> float:
    """Exact l_p^p error on a grid of this unit; p in [2, inf].

    Raises:
        InvalidInputError: it is not computed at this p.
    """
    if p == 2 or math.isinf(p):
        spread = mechanism.factorization.unit_error(Noise.GAUSSIAN, p)
        return grid_deviation(mechanism, unit) * spread
    found = discrete_error(unit * mechanism.reconstruction(), mechanism.scale / unit, p)
    if found is None:
        raise InvalidInputError(
            f"the error on the grid of the measurements is not computed at p = {p:g}; take an even"
            " p, inf, or leave own_grid out"
        )
    return found


def on_own_grid(mechanism: Mechanism, p: float, asked: bool | None = None) -> Mechanism:
    """The mechanism with its noise on its own grid, where that is to be; else itself.

    Args:
        mechanism: with calibrated noise.
        p: at which its error is to be known.
        asked: True wherever it gains anything, False nowhere, None where it gains LEAST_GAIN.
    """
    guarantee, schema = mechanism.guarantee, participation_of(mechanism.strategy)
    if (
        asked is False
        or mechanism.own_grid
        or mechanism.noise is not Noise.LAPLACE
        or not isinstance(guarantee, PureDP | ApproxDP)
        or (guarantee.epsilon <= LEAST_EPSILON and not asked)
        or not (schema is None or isinstance(schema, PersonRows))
    ):
        return mechanism
    gain = own_grid_gain(mechanism)
    if gain is None or gain[0] > (1 if asked else 1 - LEAST_GAIN):
        return mechanism
    drawn_there = replace(mechanism, own_grid=True)
    with suppress(InvalidInputError):
        if drawn_there.error(p) < mechanism.error(p):
            return drawn_there
    return mechanism


def own_grid_gain(mechanism: Mechanism) -> tuple[float, float] | None:
    """What a release gains on the grid of the measurements themselves.

    With b in units of the grid, for a sensitivity D, the variance 1/(2 sinh(e/(2 D))^2) of the
    budget e is 2 b^2 at e = 2 D arsinh(1/(2 b)).

    Returns:
        Standard deviations as a part of those of the mechanism, and the epsilon that has the same
        ones as the mechanism; None for other noise, or strategies that are not whole.
    """
    noise, scale = mechanism.noise, mechanism.scale
    known = isinstance(mechanism.guarantee, PureDP | ApproxDP)
    if noise is not Noise.LAPLACE or scale == 0 or not known:
        return None
    lattice = own_lattice(mechanism.strategy)
    if lattice is None:
        return None
    unit = float(lattice.units[0])
    sensitivity, _ = lattice.sensitivity(mechanism.neighbours, noise)
    if sensitivity * unit > mechanism.sensitivity * (1 + BEYOND):
        return None
    part = grid_deviation(mechanism, unit) / (scale * math.sqrt(2.0))
    return part, 2 * sensitivity * math.asinh(unit / (2 * scale))
