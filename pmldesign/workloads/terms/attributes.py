"""What constructors check about attributes: their sizes, and sets of them with their weights."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array

MAX_SIZE = 2**53
"""Values of an attribute: beyond, float64 cannot count them."""
MAX_SETS = 2**20
"""Tables of a workload: each is a Python tuple, 100 bytes and more."""
MAX_CELLS = 10**1000
"""Of a domain: far above all that is asked for, and still a quick product of Python integers."""


def attribute_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The number of values of each attribute.

    Raises:
        InvalidInputError: none, one that is not an integer from 1 to MAX_SIZE, or more than
            MAX_CELLS cells together.
    """
    if not len(sizes):
        raise InvalidInputError("marginals need at least one attribute, got no sizes")
    for attribute, size in enumerate(sizes):
        whole = isinstance(size, Integral) and not isinstance(size, bool)
        if not whole or not 1 <= size <= MAX_SIZE:
            raise InvalidInputError(
                f"the size of attribute {attribute} must be a whole number from 1 to {MAX_SIZE}, "
                f"got {size!r}"
            )
    kept = tuple(int(size) for size in sizes)
    if math.prod(kept) > MAX_CELLS:
        raise InvalidInputError(
            f"the {len(kept)} attributes have over 10^1000 cells together; leave some out"
        )
    return kept


def attribute_sets(
    kind: str, sets: Iterable[Iterable[int]], attributes: int
) -> tuple[tuple[int, ...], ...]:
    """Different sets of attributes, each of them in increasing order.

    Args:
        kind: the name of a set in messages, "marginal" or "residual".
        sets: from 1 to MAX_SETS of them; () is the total.
        attributes: their number.

    Raises:
        InvalidInputError: too few or too many sets, an attribute that does not exist, or a repeated
            attribute or set.
    """
    kept = [attribute_set(kind, n, members, attributes) for n, members in enumerate(sets)]
    require_different(kind, kept)
    return tuple(kept)


def attribute_set(
    kind: str, number: int, members: Iterable[int], attributes: int
) -> tuple[int, ...]:
    """The attributes of set `number` in increasing order; arguments and errors as above."""
    given = tuple(members)
    try:
        subset = tuple(sorted(map(operator.index, given)))
    except TypeError:
        subset = (-1,)
    if subset and not 0 <= subset[0] <= subset[-1] < attributes:
        raise InvalidInputError(
            f"{kind} {number} has the attributes {given}; attributes are whole numbers from "
            f"0 to {attributes - 1}"
        )
    if len(set(subset)) < len(subset):
        raise InvalidInputError(f"{kind} {number} names an attribute twice: {given}")
    return subset


def require_different(
    kind: str, sets: Sequence[tuple[int, ...]], keys: Sequence[Hashable] = ()
) -> None:
    """Refuse repeated sets, and too few or too many of them.

    Args:
        kind: the name of a set in messages.
        sets: of attributes.
        keys: the keys that distinguish them; by default the sets themselves.
    """
    numbers: dict[Hashable, int] = {}
    for number, (subset, key) in enumerate(zip(sets, keys or sets, strict=True)):
        if key in numbers:
            raise InvalidInputError(
                f"{kind}s {numbers[key]} and {number} are the same, {subset}; give it once, "
                "with a larger weight if it counts more"
            )
        numbers[key] = number
    if not 1 <= len(numbers) <= MAX_SETS:
        raise InvalidInputError(f"there must be from 1 to {MAX_SETS} {kind}s, got {len(numbers)}")


def positive_weights(kind: str, weights: ArrayLike, count: int) -> Array:
    """One weight for each set, read-only.

    Raises:
        InvalidInputError: another number of weights, or one that is not positive and finite.
    """
    if np.iscomplexobj(weights):
        raise InvalidInputError(f"the weights of {kind}s must be real numbers")
    kept = np.array(weights, dtype=np.float64)
    if kept.shape != (count,):
        raise InvalidInputError(
            f"there is one weight for each of the {count} {kind}s, got shape {kept.shape}"
        )
    wrong = np.flatnonzero(~((kept > 0) & np.isfinite(kept)))
    if wrong.size:
        raise InvalidInputError(
            f"the weight of {kind} {wrong[0]} must be positive and finite, got {kept[wrong[0]]}"
        )
    kept.flags.writeable = False
    return kept
