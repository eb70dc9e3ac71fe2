"""Calibrations checked in exact arithmetic: Fractions for the strategy, mpmath for the losses.

Nothing here is shared with the package. R is taken entry by entry as the rational numbers that its
float64 are; products of factors are multiplied out as rational numbers.
"""

import itertools
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np

mpmath.mp.dps = 60


def exact(matrix):
    return [[Fraction(value) for value in row] for row in np.asarray(matrix).tolist()]


def kronecker(factors):
    product = [[Fraction(1)]]
    for factor in factors:
        product = [
            [a * b for a in row for b in other] for row in product for other in exact(factor)
        ]
    return product


def distance(first, second, norm):
    """The l1 distance, or the square of the l2 distance, of two columns."""
    power = 1 if norm == "l1" else 2
    return sum((abs(a - b) ** power for a, b in zip(first, second, strict=True)), Fraction(0))


def sensitivity(rows, neighbours, norm):
    """The l1 sensitivity, or the square of the l2 sensitivity."""
    columns = list(zip(*rows, strict=True))
    if neighbours == "add-remove":
        origin = (Fraction(0),) * len(rows)
        return max(distance(column, origin, norm) for column in columns)
    pairs = itertools.combinations(columns, 2)
    return max((distance(a, b, norm) for a, b in pairs), default=Fraction(0))


def real(fraction):
    return mpmath.mpf(fraction.numerator) / fraction.denominator


def gaussian_delta(ratio, epsilon):
    """Theorem 8 of Balle and Wang at t = D/s."""
    x = epsilon / ratio - ratio / 2
    if x > 10**6:  # below 10^-(10^11)
        return mpmath.mpf(0)
    # far tails: erfc keeps its relative precision
    upper = mpmath.erfc(x / mpmath.sqrt(2)) / 2
    lower = mpmath.erfc((x + ratio) / mpmath.sqrt(2)) / 2
    return upper - mpmath.exp(epsilon) * lower


def different_cells(rows, alpha, norm):
    """Distances of the columns that differ, and the least probability of each."""
    counts = Counter(zip(*rows, strict=True))
    values = [[real(distance(a, b, norm)) for b in counts] for a in counts]
    if norm == "l2":
        values = [[mpmath.sqrt(value) for value in row] for row in values]
    return values, [mpmath.mpf(alpha) * count for count in counts.values()]


def laplace_leakage_bound(rows, alpha, scale):
    """Corollary 1 of [ZSO], for one alpha."""
    worst, scale = mpmath.mpf(0), mpmath.mpf(scale)
    values, least = different_cells(rows, alpha, "l1")
    for row in values:
        kept = sum(a * mpmath.exp(-d / scale) for a, d in zip(least, row, strict=True))
        kept += (1 - sum(least)) * mpmath.exp(-max(row) / scale)
        worst = max(worst, -mpmath.log(kept))
    return worst


def gaussian_slack(rows, alpha, scale, epsilon):
    """The bound on psi_2, for one alpha; of columns on a line, and of three, psi_2 itself."""
    worst, growth = mpmath.mpf(0), mpmath.exp(mpmath.mpf(epsilon))
    values, least = different_cells(rows, alpha, "l2")
    places = on_a_line(values)
    for r, (own, row) in enumerate(zip(least, values, strict=True)):
        kept = 1 - growth * own
        if kept <= 0:
            continue
        shifted = epsilon + mpmath.log((1 - own) / kept)
        profile = [gaussian_delta(d / scale, shifted) if d else mpmath.mpf(0) for d in row]
        total = sum(a * value for a, value in zip(least, profile, strict=True))
        total += (1 - sum(least)) * max(profile)
        bound = kept / (1 - own) * total
        if len(row) > 2 and places:
            y = [(x - places[r]) / scale for j, x in enumerate(places) if j != r]
            masses = [a for j, a in enumerate(least) if j != r]
            bound = min(bound, slack_on_a_line(y, masses, 1 - sum(least), kept, growth))
        elif len(row) == 3:
            first, second = (j for j in range(3) if j != r)
            sides = row[first] / scale, row[second] / scale, values[first][second] / scale
            masses = least[first], least[second]
            bound = min(bound, slack_in_a_plane(sides, masses, 1 - sum(least), kept, growth))
        worst = max(worst, bound)
    return worst


def on_a_line(values):
    """The places of all columns, from one end, if they are on a line but for rounding."""
    places = values[max(range(len(values)), key=values[0].__getitem__)]
    pairs = itertools.combinations(range(len(places)), 2)
    far = (abs(abs(places[i] - places[j]) - values[i][j]) for i, j in pairs)
    return places if all(off <= 1e-12 * max(places) for off in far) else None


def slack_on_a_line(y, masses, free, kept, growth):
    """The largest integral of (kept P_r - e^eps sum_j p_j P_j)_+ over places of the free mass."""
    worst = mpmath.mpf(0)
    for i in range(len(y)):
        p = [growth * (a + (free if i == j else 0)) for j, a in enumerate(masses)]

        def excess(s, p=p):
            terms = [a * mpmath.exp(x * s - x * x / 2) for a, x in zip(p, y, strict=True)]
            return sum(terms) - kept, sum(x * t for x, t in zip(y, terms, strict=True))

        lowest = halved(lambda s, g=excess: g(s)[1] < 0, mpmath.mpf(-40), mpmath.mpf(40))
        if excess(lowest)[0] >= 0:
            continue
        low = halved(lambda s, g=excess: g(s)[0] > 0, mpmath.mpf(-40), lowest)
        high = halved(lambda s, g=excess: g(s)[0] <= 0, lowest, mpmath.mpf(40))
        value = kept * (mpmath.ncdf(high) - mpmath.ncdf(low))
        value -= sum(
            a * (mpmath.ncdf(high - x) - mpmath.ncdf(low - x)) for a, x in zip(p, y, strict=True)
        )
        worst = max(worst, value)
    return worst


def slack_in_a_plane(sides, masses, free, kept, growth):
    """The same for three columns, the other two at (d, 0) and (x, y) from the one in question.

    At (s, t) it is positive for t below an end, and along t an integral of normal densities.
    """
    d, other, between = sides
    x = (d**2 + other**2 - between**2) / (2 * d)
    y = mpmath.sqrt(other**2 - x**2)
    worst = mpmath.mpf(0)
    for i in range(2):
        p, q = (growth * (a + (free if i == j else 0)) for j, a in enumerate(masses))

        def along(s, p=p, q=q):
            left = kept - p * mpmath.exp(d * s - d**2 / 2)
            if left <= 0:
                return mpmath.mpf(0)
            law = q * mpmath.exp(x * s - x**2 / 2)
            end = mpmath.log(left / law) / y + y / 2
            return mpmath.npdf(s) * (left * mpmath.ncdf(end) - law * mpmath.ncdf(end - y))

        with mpmath.workdps(25):
            last = min(mpmath.log(kept / p) / d + d / 2, mpmath.mpf(12))
            places = [-12, *(place for place in range(-10, 12, 2) if place < last), last]
            worst = max(worst, mpmath.quad(along, places))
    return worst


def halved(before, low, high):
    """Where a condition that holds from the left ends."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if before(middle) else (low, middle)
    return low


def hostile_matrix(rng):
    """A small matrix of hostile scale: tiny, huge, offset, nearly alike, whole, many digits."""
    rows, cells = (int(n) for n in rng.integers(1, 5, size=2))
    cells += 1
    kind = int(rng.integers(7))
    matrix = rng.standard_normal((rows, cells))
    if kind == 0:
        matrix *= 10.0 ** rng.integers(-300, 300)
    elif kind == 1:  # rows of sizes of their own
        matrix *= 10.0 ** rng.integers(-290, 290, size=(rows, 1))
    elif kind == 2:  # entries of sizes of their own
        matrix *= 10.0 ** rng.uniform(-160, 160, size=(rows, cells))
    elif kind == 3:  # a large offset of every row
        matrix += 10.0 ** rng.integers(0, 15, size=(rows, 1))
    elif kind == 4:  # columns that differ in their last digit
        matrix = np.tile(matrix[:, :1], (1, cells))
        matrix[int(rng.integers(rows)), int(rng.integers(cells))] *= 1 + 2.0**-52
    elif kind == 5:
        matrix = rng.integers(-3, 4, size=(rows, cells)) * 2.0 ** rng.integers(-900, 900)
    else:
        matrix *= 2.0 ** rng.integers(-1074, -960)
    return np.asarray(matrix, dtype=np.float64)


def hostile_epsilon(rng):
    return float(10.0 ** rng.uniform(-3, 1)) if rng.random() < 0.8 else float(rng.integers(1, 4))


def over_target(rows, guarantee, noise, scale):
    """Loss over target minus 1 in exact arithmetic or 60 digits: positive if not private."""
    epsilon = guarantee.epsilon
    if not hasattr(guarantee, "alpha"):
        if noise == "laplace":
            value = sensitivity(rows, guarantee.neighbours, "l1")
            return value / (Fraction(scale) * Fraction(epsilon)) - 1
        square = sensitivity(rows, guarantee.neighbours, "l2")
        ratio = mpmath.sqrt(real(square)) / mpmath.mpf(scale)
        return gaussian_delta(ratio, mpmath.mpf(epsilon)) / mpmath.mpf(guarantee.delta) - 1
    if noise == "laplace":
        return laplace_leakage_bound(rows, guarantee.alpha, scale) / mpmath.mpf(epsilon) - 1
    loss = gaussian_slack(rows, guarantee.alpha, mpmath.mpf(scale), mpmath.mpf(epsilon))
    return loss / mpmath.mpf(guarantee.delta) - 1


def how_close(rows, guarantee, noise):
    """How far the loss may stay below its target: three columns in a plane are summed in strips."""
    if not hasattr(guarantee, "alpha") or noise == "laplace":
        return 1e-5
    values, _ = different_cells(rows, guarantee.alpha, "l2")
    return 0.02 if len(values) == 3 and not on_a_line(values) else 1e-5


def is_nothing(rows, guarantee):
    """Whether R does not tell neighbours apart at all."""
    return sensitivity(rows, guarantee.neighbours, "l1") == 0
