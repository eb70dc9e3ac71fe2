"""Finite mechanisms to compute envelopes of, and their names on the command line.

Randomized response: the true value with probability alpha = e^eps / (e^eps + k - 1), any other
with probability beta = 1 / (e^eps + k - 1).

PML-extremal mechanism in the high-privacy regime, 0 < eps < -log(1 - min p): e^eps p_j off the
diagonal and 1 - e^eps (1 - p_i) on it; every output leaks exactly eps.

Quantised noise: the secret is x in {0, ..., k-1}, the output is the cell that x + noise falls in;
the cells cut [0, k-1] into equal parts, and the first and the last reach to infinity.

References:
    [SPP] Saeidian, Pinzon and Palamidessi, Information Leakage Envelopes, Section V.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pmldesign.arguments import (
    as_number,
    as_whole,
    doubles,
    instance,
    number,
    positive,
    real_numbers,
    whole,
)
from pmldesign.envelope.channel import Channel
from pmldesign.errors import InvalidInputError
from pmldesign_solvers.operators.operator import Array

_NEVER = 1e-290
"""Cells that noise reaches with a smaller probability count as never reached."""
MOST_ENTRIES = 2**24
"""Most entries of a channel that is made from its name: 128 MiB."""

Number = TypeVar("Number", int, float)


def randomized_response(prior: ArrayLike, *, epsilon: float) -> Channel:
    """k-ary randomized response, k the length of the prior.

    Raises:
        InvalidInputError: epsilon not positive and finite, fewer than two values, a bad prior.
    """
    weights = doubles(real_numbers("prior", prior))
    k = _at_least_two(weights)
    epsilon = positive("epsilon", epsilon)
    other = np.exp(-epsilon)
    matrix = np.full((k, k), other / (1 + (k - 1) * other))
    np.fill_diagonal(matrix, 1 / (1 + (k - 1) * other))
    return Channel(matrix, weights)


def extremal(prior: ArrayLike, *, epsilon: float) -> Channel:
    """The PML-extremal mechanism in the high-privacy regime.

    Raises:
        InvalidInputError: epsilon outside (0, -log(1 - min p)), or a bad prior.
    """
    weights = doubles(real_numbers("prior", prior))
    k = _at_least_two(weights)
    channel = Channel(np.tile(weights, (k, 1)), weights)  # checks the prior
    limit = -np.log1p(-channel.prior.min())
    if not 0 < number("epsilon", epsilon) < limit:
        raise InvalidInputError(
            f"epsilon must be in (0, -log(1 - min p)) = (0, {limit:.6g}) for this prior, "
            f"got {epsilon}"
        )
    matrix = np.exp(epsilon) * channel.matrix
    np.fill_diagonal(matrix, 1 - np.exp(epsilon) * (1 - channel.prior))
    return Channel(matrix, channel.prior)


def quantized_laplace(prior: ArrayLike, *, scale: float, cells: int) -> Channel:
    """Laplace noise of the given scale added to x in {0, ..., k-1}, read off on few cells.

    Args:
        prior: shape (k,), the distribution of x.
        scale: b, in units of x.
        cells: number of outputs, at least 2.

    Raises:
        InvalidInputError: scale not positive and finite, cells below 2, a bad prior.
    """

    def distribution(z: Array) -> Array:
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    return _quantized(prior, scale, cells, distribution)


def quantized_gaussian(prior: ArrayLike, *, scale: float, cells: int) -> Channel:
    """As `quantized_laplace`, with Gaussian noise of standard deviation `scale`.

    Raises:
        InvalidInputError: scale not positive and finite, cells below 2, a bad prior.
    """
    return _quantized(prior, scale, cells, scipy.special.ndtr)


def _quantized(
    prior: ArrayLike, scale: float, cells: int, distribution: Callable[[Array], Array]
) -> Channel:
    weights = doubles(real_numbers("prior", prior))
    k = _at_least_two(weights)
    scale, cells = positive("scale", scale), whole("cells", cells, 2)
    cuts = np.linspace(0, k - 1, cells + 1)[1:-1]
    z = (cuts - np.arange(k)[:, None]) / scale
    edge = np.ones((k, 1))
    # differences of the smaller tail keep the digits of unlikely cells
    below = np.diff(distribution(z), axis=1, prepend=0 * edge, append=edge)
    above = -np.diff(distribution(-z), axis=1, prepend=edge, append=0 * edge)
    upper_half = np.hstack([z, np.full((k, 1), np.inf)]) > 0
    matrix = np.where(upper_half, above, below)
    return Channel(np.where(matrix < _NEVER, 0.0, matrix), weights)


def parse_channel(name: str, prior: ArrayLike | None = None) -> Channel:
    """The channel that a name stands for.

    rr:K,eps=E  extremal:K,eps=E  laplace:K,scale=B,cells=C  gaussian:K,scale=S,cells=C

    Args:
        name: as above; K is the number of values of the secret.
        prior: shape (K,); uniform if not given.

    Raises:
        InvalidInputError: another name, option or number, or a prior of another length.
    """
    instance("channel", name, str, "a name such as 'rr:3,eps=1'")
    kind, _, rest = name.partition(":")
    if kind not in _OPTIONS or not rest:
        raise InvalidInputError(
            f"channel must be a file or one of {', '.join(_FORMS)}, got {name!r}"
        )
    size, *given = rest.split(",")
    options = dict(entry.partition("=")[::2] for entry in given)
    if set(options) != set(_OPTIONS[kind]) or len(options) != len(given):
        form = next(form for form in _FORMS if form.startswith(f"{kind}:"))
        raise InvalidInputError(f"channel must have the form {form}, got {name!r}")
    k = _number("number of values", size, as_whole)
    outputs = _number("cells", options["cells"], as_whole) if "cells" in options else k
    if max(k, 1) * max(outputs, 1) > MOST_ENTRIES:
        raise InvalidInputError(
            f"channel {name!r} has {k} x {outputs} entries, must have at most {MOST_ENTRIES};"
            " take fewer values or cells"
        )
    uniform = np.full(max(k, 1), 1 / max(k, 1))
    weights = uniform if prior is None else real_numbers("prior", prior)
    if prior is not None and weights.shape != (k,):
        raise InvalidInputError(
            f"prior must have {size} entries for the channel {name!r}, got shape {weights.shape}"
        )
    if kind in ("rr", "extremal"):
        build = randomized_response if kind == "rr" else extremal
        return build(weights, epsilon=_number("eps", options["eps"], as_number))
    noise = quantized_laplace if kind == "laplace" else quantized_gaussian
    return noise(weights, scale=_number("scale", options["scale"], as_number), cells=outputs)


def is_channel_name(text: str) -> bool:
    """Whether `text` begins like a name that `parse_channel` knows ("rr:...")."""
    return text.partition(":")[0] in _OPTIONS and ":" in text


_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "rr": ("eps",),
    "extremal": ("eps",),
    "laplace": ("scale", "cells"),
    "gaussian": ("scale", "cells"),
}
_FORMS = [
    f"{kind}:K," + ",".join(f"{option}=..." for option in options)
    for kind, options in _OPTIONS.items()
]


def _number(name: str, text: str, read: Callable[[str], Number | None]) -> Number:
    number = read(text)
    if number is None:
        article = "a whole number" if read is as_whole else "a number"
        raise InvalidInputError(f"{name} must be {article}, got {text!r}")
    return number


def _at_least_two(weights: Array) -> int:
    if weights.ndim != 1 or len(weights) < 2:
        raise InvalidInputError(
            f"prior must be a vector of at least 2 probabilities, got shape {weights.shape}"
        )
    return len(weights)
