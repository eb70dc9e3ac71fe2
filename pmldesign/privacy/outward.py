r"""Arithmetic that is rounded to the private side.

u = 2^-53. A sum of r numbers of equal sign is off by at most a relative (r - 1) u/(1 - (r - 1) u),
in whatever order it is taken, and every product, difference or root by u. A number that
is off by n such units is raised to at least the true one (`raised`).

Sums of whole multiples of a power of two that stay below 2^53 of it are exact (`is_whole`). A
quotient and a root are compared with their exact values in rational arithmetic.

Powers of two change no digit: results of numbers of size 1 are scaled back at the end, and refused
if they are out of the range of float64 (`unscaled`).

The scale of noise is the private end of a bracket, never a two-sided root (`private_end`). Bounds
are written with few digits, rounded to the side that keeps them valid (`at_least`, `at_most`); a
bound with a short form is shown in that form, which reads back as the bound itself.

References:
    Higham, Accuracy and stability of numerical algorithms (2002), Lemmas 3.1 and 4.2.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import BLOCK_BYTES, Array

UNIT = 2.0**-53
"""Largest relative error of a rounded operation."""
MANTISSA_BITS = 53
"""Whole numbers up to 2^53 are float64."""


def factor_above(units: float) -> float:
    """What raises a number that is a relative `units` u too small, at most, to the true one.

    1/(1 - n u/(1 - n u)) is at most 1 + 1.05 n u for n u up to 0.02; the factor itself and the
    product with it are rounded, 2 u more.
    """
    return 1 + (1.05 * units + 4) * UNIT


def raised(value: float, units: float) -> float:
    """`value` raised by what `units` roundings have taken away at most; 0 stays 0."""
    return value * factor_above(units)


def quotient_above(numerator: float, denominator: float) -> float:
    """The smallest float64 that is at least numerator / denominator, both positive.

    Raises:
        InvalidInputError: the quotient is out of the range of float64.
    """
    return float_above("the quotient", Fraction(numerator) / Fraction(denominator))


def ratios_above(distances: Array, scale: float, most: float) -> Array:
    """Distances over a scale of at least 0, rounded upwards; at most about `most`, 0 stays 0."""
    if scale > 0:
        ratios = np.minimum(distances, most * scale) / scale
        return np.where(distances > 0, np.nextafter(ratios, np.inf), 0.0)
    return np.where(distances > 0, most, 0.0)


def as_written(value: float) -> Fraction:
    """The decimal number that a float64 is written as: 1/10 for 0.1, not the float next to it."""
    return Fraction(repr(float(value)))


def float_above(what: str, exact: Fraction) -> float:
    """The smallest float64 that is at least a number that is not negative.

    Raises:
        InvalidInputError: float64 does not hold the number with all digits.
    """
    if exact == 0:
        return 0.0
    digits = exact.numerator.bit_length() - exact.denominator.bit_length()
    if not sys.float_info.min_exp < digits < sys.float_info.max_exp - 1:
        raise out_of_range(what, 1.0, digits)
    value = float(exact)  # the nearest
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def root_above(square: float | Fraction) -> float:
    """The smallest float64 whose square is at least `square`, of size about 1."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def is_whole(values: Array, largest_sum: float, *, squared: bool = False) -> bool:
    """Whether sums of (squared) differences of the values are exact up to `largest_sum`.

    They are if the values are multiples of a power of two that is at least `largest_sum`/2^53.
    """
    exponent = math.frexp(largest_sum)[1]  # largest_sum < 2^exponent
    unit = -((MANTISSA_BITS - exponent) // 2) if squared else exponent - MANTISSA_BITS
    flat = values.ravel()
    for start in range(0, flat.size, BLOCK_BYTES // 8):  # the first block decides most matrices
        multiples = np.ldexp(flat[start : start + BLOCK_BYTES // 8], -unit)
        if not (np.isfinite(multiples).all() and (multiples == np.rint(multiples)).all()):
            return False
    return True


def times_power_of_two(values: Array, exponent: int) -> Array:
    """`values` times 2^exponent, rounded once; a product takes less time than `ldexp`."""
    if abs(exponent) < -sys.float_info.min_exp:
        return np.asarray(values * 2.0**exponent)
    return np.asarray(np.ldexp(values, exponent))


def digits_spanned(values: Array) -> int:
    """Binary digits from the first of the largest value to the last of any; 0 for zeros.

    Products of numbers of b and c digits are exact if b + c is at most 53.
    """
    mantissas, exponents = np.frexp(values[values != 0])
    if not mantissas.size:
        return 0
    whole = np.ldexp(mantissas, MANTISSA_BITS).astype(np.int64)
    last = exponents - MANTISSA_BITS + np.log2(whole & -whole)
    return int(exponents.max() - last.min())


def size(largest: float) -> int:
    """The e with 2^(e-1) <= largest < 2^e."""
    return math.frexp(largest)[1]


def unscaled(what: str, value: float, exponent: int) -> float:
    """What `value` times 2^exponent is, exactly.

    Raises:
        InvalidInputError: float64 does not hold it with all digits.
    """
    if value == 0:
        return 0.0
    _, place = math.frexp(value)
    if not sys.float_info.min_exp <= place + exponent <= sys.float_info.max_exp:
        raise out_of_range(what, value, exponent)
    return math.ldexp(value, exponent)


def out_of_range(what: str, value: float, exponent: int) -> InvalidInputError:
    """The refusal of a number that is too large or too small."""
    digits = (math.log2(value) + exponent) * math.log10(2)
    return InvalidInputError(
        f"{what} is about 1e{digits:+.0f}, must be between 2.3e-308 and 1.7e308, the range of "
        "double precision; rescale the strategy, which changes no error at a given guarantee"
    )


NORMALISED = 1e-11
"""What normalised strategies are above 1 by rounding, as the sums of up to 10^4 numbers."""


def shortest(value: float) -> str:
    """The fewest digits that read back as the same float64: 1, 0.1, 1.0000049, 1e-06."""
    return repr(float(value)).removesuffix(".0")


def at_least(value: float, digits: int = 6) -> str:
    """So many significant digits of an upper bound, rounded upwards."""
    return _rounded(value, digits, ROUND_CEILING)


def of_scale(value: float, digits: int = 6) -> str:
    """So many digits of a scale or a sensitivity, rounded upwards.

    NORMALISED of it is subtracted first, so that 1 is not shown as 1.00001.
    """
    return at_least(value * (1 - NORMALISED), digits)


def at_most(value: float, digits: int = 6) -> str:
    """So many significant digits of a lower bound, rounded downwards."""
    return _rounded(value, digits, ROUND_FLOOR)


def to_places(value: float, *, up: bool) -> str:
    """Six places after the point of a bound, rounded upwards or downwards."""
    if not math.isfinite(value):
        return f"{value:g}"
    direction = ROUND_CEILING if up else ROUND_FLOOR
    exact = Decimal(repr(float(value))).quantize(Decimal("1e-6"), direction)
    return f"{exact + 0:f}"  # without the sign of a zero


def _rounded(value: float, digits: int, direction: str) -> str:
    """In the form of the format %g."""
    if not math.isfinite(value):
        return f"{value:g}"
    exact = Context(prec=digits, rounding=direction).create_decimal(Decimal(repr(float(value))))
    if exact == 0:
        return "0"
    exponent = exact.adjusted()
    if not -4 <= exponent < digits:
        mantissa = f"{exact.scaleb(-exponent):f}"
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{exponent:+03d}"
    text = f"{exact:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


WIDTH = 5e-7
"""Relative width of the final bracket; half of the tolerance of the tests."""
NARROW = 1e-11
"""The same where a loss takes microseconds and is rounded by some 1e-13 at most."""

VANISHED = math.log(math.ulp(0.0)) - 1
"""Logarithm of a loss that is 0 in float64."""
LOWEST, HIGHEST = -700.0, 700.0
"""Logarithms of the scales that are tried: others are out of the range of float64."""


def private_end(
    loss: Callable[[float], float],
    target: float,
    *,
    start: float,
    ratio: float = 2.0,
    width: float = WIDTH,
) -> float:
    """Smallest noise scale, to a relative width, at which a decreasing privacy loss is met.

    Args:
        loss: privacy loss at a scale, non-negative, decreasing up to rounding.
        target: positive; exceeded at small scales and met at large ones.
        start: positive, where to begin.
        ratio: of the second scale that is tried to the first; above 1.
        width: relative, of the final bracket; above 1e-12.

    Returns:
        A scale with loss(scale) <= target, for which some scale' with
        scale / (1 + width) <= scale' < scale was evaluated and has loss(scale') > target.

    Raises:
        InvalidInputError: no scale between 1e-304 and 1e304 is at the boundary.
    """
    # logarithms of scales, and by how much those of their losses are above that of the target
    (met, below), (violated, above) = (math.inf, 0.0), (-math.inf, 0.0)

    def evaluate(log_scale: float) -> None:
        nonlocal met, violated, below, above
        value = loss(math.exp(log_scale))
        excess = (math.log(value) if value > 0 else VANISHED) - math.log(target)
        if value <= target:
            met, below = log_scale, excess
        else:  # also where the loss is not a number
            violated, above = log_scale, excess

    log_scale, step = math.log(start), math.log(ratio)
    evaluate(log_scale)
    while math.isinf(met) or math.isinf(violated):
        if not LOWEST < log_scale < HIGHEST:
            raise InvalidInputError(
                "the scale of the noise that this guarantee needs is out of the range of double "
                "precision; take another epsilon or delta"
            )
        log_scale += step if math.isinf(met) else -step
        log_scale = min(max(log_scale, LOWEST), HIGHEST)
        step *= 2
        evaluate(log_scale)
    # the logarithms of the loss and of the scale are nearly linear in each other: few secants, for
    # which an end that stays again counts half as much (Illinois); every fourth step halves
    turn, stays = 0, None
    while met > violated + width:
        log_scale, turn, before, stayed = (met + violated) / 2, turn + 1, met, stays
        secant = (violated * below - met * above) / ((below - above) or math.nan)
        if turn % 4 and violated <= secant <= met:
            log_scale = min(max(secant, violated + width / 2), met - width / 2)
        evaluate(log_scale)
        stays = "violated" if met < before else "met"
        if stays == stayed == "violated":
            above /= 2
        elif stays == stayed:
            below /= 2
    return math.exp(met)
