"""Argument validation shared by the public functions."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from functools import wraps
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array

SMALLEST_PARAMETER = 1e-100
"""Least epsilon, and one over the largest: squares of scales stay in the range of float64."""
SMALLEST_PROBABILITY = 1e-300
"""Least delta and alpha: the profile of Gaussian noise is evaluated down to there."""
LARGEST_EXPONENT = 1e100
"""Largest finite p: its logarithmic Gamma function and powers stay in the range of float64."""

Member = TypeVar("Member", bound=StrEnum)
APART = "give real and imaginary parts as rows of their own, numpy.concatenate([x.real, x.imag])"
"""What to do with complex numbers."""
LONGEST_SHOWN = 80
"""Maximum number of letters of a rejected value in a message."""


def as_number(text: str) -> float | None:
    """The number that is written in plain digits, NaN and infinities too; None for other text.

    Python also reads 1_000, and digits of other scripts, which other programs do not.
    """
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def as_numbers(texts: Iterable[str]) -> list[float] | None:
    """The numbers that are written so; None if any text is not a number."""
    read = [as_number(text) for text in texts]
    numbers = [number for number in read if number is not None]
    return numbers if len(numbers) == len(read) else None


def as_whole(text: str) -> int | None:
    """The integer that is written so; None for other text."""
    try:
        return None if as_number(text) is None else int(text)
    except ValueError:
        return None


def doubles(array: Any) -> Array:
    """A float64 copy of numbers of any type: inf if they are too large, without a warning."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(array, dtype=np.float64, order="C")


def real_numbers(name: str, value: Any) -> NDArray[Any]:
    """`value` as an array of booleans, integers or real numbers, as it is if it is one.

    Raises:
        InvalidInputError: no numbers, complex ones, rows of different lengths, or masked entries.
    """
    if np.ma.is_masked(value):
        raise InvalidInputError(f"{name} must have no masked entries; fill them, or leave them out")
    if isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must hold real numbers, got {value}")
    try:
        array = np.asarray(of_columns(value))
    except ValueError:
        raise InvalidInputError(f"{name} must have rows of one length") from None
    except TypeError as error:  # such as a tensor on another device
        raise InvalidInputError(f"{name} must hold real numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        apart = f"; {APART}" if array.dtype.kind == "c" else ""
        raise InvalidInputError(f"{name} must hold real numbers, got dtype {array.dtype}{apart}")
    return array


def of_columns(frame: Any) -> Any:
    """The numbers of a frame or series of pandas in which all columns have some; else the value.

    Nullable columns, and booleans mixed with floats, are otherwise Python objects; a missing value
    is NaN.
    """
    dtypes = getattr(frame, "dtypes", None)
    columns = [*dtypes] if isinstance(dtypes, Iterable) else [dtypes]
    if not columns or any(getattr(dtype, "kind", "O") not in "biuf" for dtype in columns):
        return frame
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def finite_matrix(name: str, value: Any) -> Array:
    """`value` as a finite float64 matrix, itself if it is a fixed one, or a copy.

    A single row may be given as a vector.

    Raises:
        InvalidInputError: not numeric, not two-dimensional, empty, complex, or with NaN or inf.
    """
    array = real_numbers(name, value)
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"{name} must be a non-empty matrix, got shape {array.shape}")
    matrix = array if fixed(array) and array.flags.c_contiguous else doubles(array)
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidInputError(
            f"{name} must be finite, got {matrix[row, column]} at row {row}, column {column}"
        )
    return matrix


def fixed(array: NDArray[Any]) -> bool:
    """Whether it is of float64 and owns read-only numbers, so that it needs no copy."""
    return array.dtype == np.float64 and array.flags.owndata and not array.flags.writeable


def whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as an integer of at least `least`.

    Raises:
        InvalidInputError: no integer of any type, or below.
    """
    try:
        found = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = least - 1
    if found < least:
        raise InvalidInputError(
            f"{name} must be a whole number of at least {least}, got {shown(value)}"
        )
    return found


def number(name: str, value: Any) -> float:
    """`value` as a float, inf if it is too large for one.

    Raises:
        InvalidInputError: not a real number of any type; True and False do not count as numbers.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidInputError(f"{name} must be a number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def shown(value: Any) -> str:
    """The rejected value, in one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def instance(name: str, value: Any, kinds: Any, say: str) -> None:
    """Refuse values of any other type, and say which values are valid.

    Raises:
        InvalidInputError: it is of another type.
    """
    if not isinstance(value, kinds):
        raise InvalidInputError(f"{name} must be {say}, got {shown(value)}")


def flags(**values: Any) -> None:
    """Refuse flags that are neither True nor False: any text would be true.

    Raises:
        InvalidInputError: one is of another type.
    """
    for name, value in values.items():
        instance(name, value, bool | np.bool_, "True or False")


def member(name: str, value: Any, kind: type[Member]) -> Member:
    """The member that a text names, one of several words.

    Raises:
        InvalidInputError: it is not a text, or not one of these words.
    """
    instance(name, value, str, " or ".join(map(repr, map(str, kind))))
    return kind(value)


def listed(name: str, value: Any) -> list[Any]:
    """The entries of a list, or of whatever else has some.

    Raises:
        InvalidInputError: it has none; a text, whose letters are meant nowhere, or a mapping.
    """
    try:
        if not isinstance(value, str | bytes | Mapping):
            return list(value)
    except TypeError:
        pass
    remedy = f"; write [{shown(value)}]" if isinstance(value, str) else ""
    raise InvalidInputError(f"{name} must be a list, got {shown(value)}{remedy}")


def positive(name: str, value: float) -> float:
    """`value` as a positive finite float.

    Raises:
        InvalidInputError: no number, zero, negative, infinite or NaN.
    """
    found = number(name, value)
    if not 0 < found < math.inf:
        raise InvalidInputError(f"{name} must be positive and finite, got {value}")
    return found


def parameter(name: str, value: float) -> float:
    """`value` as a privacy parameter: positive, and not so small or large that squares vanish.

    Raises:
        InvalidInputError: not positive and finite, or beyond SMALLEST_PARAMETER and its inverse.
    """
    value = positive(name, value)
    if not SMALLEST_PARAMETER <= value <= 1 / SMALLEST_PARAMETER:
        raise InvalidInputError(
            f"{name} must be between {SMALLEST_PARAMETER:g} and {1 / SMALLEST_PARAMETER:g}, got "
            f"{value!r}: scales of noise beyond that leave the range of double precision"
        )
    return value


def non_negative(name: str, value: float) -> float:
    """`value` as a finite float that is at least zero.

    Raises:
        InvalidInputError: no number, negative, infinite or NaN.
    """
    found = number(name, value)
    if not 0 <= found < math.inf:
        raise InvalidInputError(f"{name} must be finite and at least 0, got {value}")
    return found


def probability(name: str, value: float) -> float:
    """`value` as a float strictly between 0 and 1.

    Raises:
        InvalidInputError: no number, outside (0, 1) or NaN, or below SMALLEST_PROBABILITY.
    """
    found = number(name, value)
    if not 0 < found < 1:
        raise InvalidInputError(f"{name} must be in (0, 1), got {value}")
    if found < SMALLEST_PROBABILITY:
        raise InvalidInputError(
            f"{name} must be at least {SMALLEST_PROBABILITY:g}, the range of double precision, got "
            f"{value!r}; take a larger one"
        )
    return found


def exponent(p: float) -> float:
    """The p of an l_p^p error, as a float in [2, inf].

    Raises:
        InvalidInputError: no number, below 2, or NaN.
    """
    found = number("p", p)
    if not found >= 2:
        raise InvalidInputError(f"p must be in [2, inf], got {p}; use 2 for squared error")
    if LARGEST_EXPONENT < found < math.inf:
        raise InvalidInputError(f"p must be at most {LARGEST_EXPONENT:g} or inf, got {p}; use inf")
    return found


PARAMETERS_OF: dict[str, tuple[str, ...]] = {
    "PureDP": ("epsilon",),
    "ApproxDP": ("epsilon", "delta"),
    "ZCDP": ("rho",),
    "GaussianDP": ("mu",),
    "RenyiDP": ("order", "epsilon"),
    "PML": ("epsilon", "alpha"),
    "ApproxPML": ("epsilon", "delta", "alpha"),
}
PARAMETERS = frozenset().union(*PARAMETERS_OF.values())
Function = TypeVar("Function", bound=Callable[..., Any])


def named_arguments(function: Function) -> Function:
    """Refuse unknown keywords, and parameters of a guarantee instead of the guarantee.

    Args:
        function: public; the names of its arguments are those of its signature.
    """
    names = inspect.signature(function).parameters

    @wraps(function)
    def checked(*values: Any, **named: Any) -> Any:
        wrong = [name for name in named if name not in names]
        if wrong:
            raise _misnamed(function.__name__, wrong[0], named, [*names])
        return function(*values, **named)

    return cast(Function, checked)


def _misnamed(
    function: str, wrong: str, named: Mapping[str, Any], names: Sequence[str]
) -> InvalidInputError:
    """The error of an unknown argument."""
    parameters = {name for name in PARAMETERS if name in named and name not in names}
    for kind, fitting in PARAMETERS_OF.items():
        if parameters == set(fitting):
            values = ", ".join(f"{named[name]!r:.40}" for name in fitting)
            return InvalidInputError(
                f"{wrong} is a parameter of a guarantee; write"
                f" {function}(..., guarantee=pmldesign.{kind}({values}))"
            )
    close = get_close_matches(wrong, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(names)}"
    return InvalidInputError(f"{function} has no argument {wrong!r}; {hint}")
