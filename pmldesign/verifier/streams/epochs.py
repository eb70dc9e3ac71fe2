r"""Streams in which a person takes part in several steps, b apart.

Step t = e b + c is member e of class c; W is block diagonal over the classes. The resolvent
N + s^2 W, with N = B B^T of `resolvents`, links class c by diagonal matrices to classes c - 1 and
c + 1 alone, and class b - 1 to class 0 of the next epoch. Class 0 is eliminated last. With
o_t^2 = a_{t-1}^2 b_{t-1}^2 the link of step t to the one before, H_c without a_c^2 and Y_c the part
that couples class c to class 0,

    F_c = a_c^2 + H_c,     H_c = s^2 W_c + b_{c-1} [J (1 + J)^-1] b_{c-1},  J = a^-1 H a^-1 of c - 1
    Y_c = o_c F_{c-1}^-1 Y_{c-1},     Y_1 = -o_1,     and in the last class the links to class 0
    S   = (N + s^2 W)_00 - sum_c Y_c^T F_c^-1 Y_c

and the blocks of the inverse G are, from the last class to the first one, U_c = -o_{c+1},

    G_00 = S^-1,   G_c0 = -F_c^-1 (U_c G_{c+1,0} + Y_c G_00),
    G_cc = F_c^-1 - F_c^-1 (U_c G_{c+1,c} + Y_c G_0c),   G_{c,c+1} from column c + 1.

Strategy X = sum_k c_k (N + s_k^2 W)^-1 for running sums A, N = (A^T A)^-1. Its squared sensitivity
is the largest sum of abs(X_ij) within a pattern. With d, e_j and z_j of 1/(x r(x)) as in
`running_sums`, G of N + z_j W and B = A^-1,

    variances = d + e_0 diag(A W A^T) + sum_j e_j (1 - diag(B^T G B))/z_j.

Weights W of steps prove that the norm is at least tr (A W A^T)^(1/2) / (sum_c max diag W_c)^(1/2),
(2/pi) times the integral over s of tr (N + s^2 W)^-1 W.

Fixed epochs have these blocks. A strategy of `running_sums`, made for one participation, has the
entries X_ij = sum_k Y_k(j) prod_{i <= m < j} l_k(m) of resolvents; if no l exceeds 1 they fall with
the distance of i and j, so that for steps at least b apart the squared sensitivity is at most

    k max_i X_ii + 2 sum_{0 < l < k} (k - l) max_i X_{i, i + l b},

and k^2 max_i X_ii in any case. A Toeplitz strategy with r >= 0 has its longest pattern at 0, b, 2b,
... in fixed epochs, and where r falls for min-sep too (Kalinin and Lampert 2024, Theorem 2); its
variances are sums of squares of the coefficients of 1 / (r(z) (1 - rate z)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from flint import arb

from pmldesign.verifier.balls import dual_norm, root
from pmldesign.verifier.forms.structured import Computed, check_computed, rounded, spread_of
from pmldesign.verifier.queries import Queries
from pmldesign.verifier.report import Arrays, Checks, Header
from pmldesign.verifier.streams.participation import Pattern
from pmldesign.verifier.streams.resolvents import ReadChain, chain_of
from pmldesign.verifier.streams.running_sums import (
    check_sums,
    deviations,
    lower_bound,
    reciprocal,
    too_long,
)

STEP, ABOVE, BELOW = 0.4, 34.0, 25.0
"""Of the integral over log s: an error of 8e-11; the tails cut off are positive."""
STEP_ERROR = 4.01 * math.exp(-(math.pi**2) / STEP)
BATCH = 2**20
"""Numbers in the blocks of a class for all s that are taken at once."""
MOST_NUMBERS = 2**23
"""Of the blocks of all classes: two minutes."""
MOST_PRODUCTS = 2**33
"""Of steps and bands: ten seconds."""


@dataclass(frozen=True, slots=True)
class ReadEpochs:
    """N by classes: squares a^2 and b^2 of each step and the one before, shape (b, m).

    Steps beyond the last one are there to fill the classes; they are linked to no other.
    """

    after: Any
    before: Any

    @classmethod
    def of(cls, chain: ReadChain, apart: int) -> ReadEpochs:
        """Of B, for classes of steps that are so far apart."""
        before = np.concatenate([[0.0], chain.beside**2])
        return cls(_by_class(chain.inner**2, apart, 1.0), _by_class(before, apart, 0.0))

    @property
    def links(self) -> Any:
        """o, of each step to the one before."""
        ahead = np.vstack([np.concatenate([[0.0], self.after[-1, :-1]]), self.after[:-1]])
        return np.sqrt(self.before * ahead)

    def resolvents(self, weights: Any, shifts: Any) -> tuple[Any, Any]:
        """G: its blocks of classes, shape (K, b, m, m), and the entries of t - 1 and t, (K, b, m).

        Args:
            weights: W_c, shape (b, m, m).
            shifts: s^2, shape (K,).
        """
        count, members = self.after.shape
        links, shape = self.links, (len(shifts), count, members, members)
        F_inverse, Y = np.empty(shape), np.zeros(shape)
        Y[:, 1] = -np.diag(links[1])
        Y[:, -1] -= np.diag(links[0, 1:], 1)
        diagonal = np.eye(members)
        scaled = shifts[:, None, None, None] * weights
        corner = scaled[:, 0] + np.diag(self.after[0] + self.before[0])
        rest = np.broadcast_to(np.diag(self.before[1]), shape[:1] + shape[2:])
        for c in range(1, count):
            a = np.sqrt(self.after[c])
            J = (scaled[:, c] + rest) / a[:, None] / a
            F_inverse[:, c] = np.linalg.inv(diagonal + J) / a[:, None] / a
            corner = corner - _across(Y[:, c], F_inverse[:, c])
            if c + 1 < count:
                b = np.sqrt(self.before[c + 1])
                rest = b[:, None] * (J @ np.linalg.inv(diagonal + J)) * b
                Y[:, c + 1] += links[c + 1][:, None] * (F_inverse[:, c] @ Y[:, c])
        return self._inverse(F_inverse, Y, np.linalg.inv(corner))

    def _inverse(self, F_inverse: Any, Y: Any, corner: Any) -> tuple[Any, Any]:
        """The blocks from the last class to the first one."""
        count, links = len(self.after), self.links
        blocks = np.empty_like(F_inverse)
        beside = np.zeros((len(corner), *self.after.shape))
        blocks[:, 0] = corner
        below: Any = None  # G of the next class with itself, and with class 0
        to_corner: Any = None
        for c in range(count - 1, 0, -1):
            pull = Y[:, c] @ corner
            own = Y[:, c] @ np.swapaxes(pull, 1, 2)
            if c + 1 < count:
                o = links[c + 1][:, None]
                right = o * below - Y[:, c] @ np.swapaxes(to_corner, 1, 2)
                beside[:, c + 1] = np.einsum("kij,kji->ki", F_inverse[:, c], right)
                mixed = o * to_corner @ np.swapaxes(Y[:, c], 1, 2)
                own = own - mixed - np.swapaxes(mixed, 1, 2) + o * below * links[c + 1]
                pull = pull - o * to_corner
            else:
                last = -F_inverse[:, c] @ pull
                beside[:, 0, 1:] = np.einsum("kii->ki", last[:, :-1, 1:])
            below = F_inverse[:, c] + F_inverse[:, c] @ own @ F_inverse[:, c]
            to_corner = -F_inverse[:, c] @ pull
            blocks[:, c] = below
        beside[:, 1] = np.einsum("kii->ki", to_corner)
        return blocks, beside

    def by_step(self, values: Any, steps: int) -> Any:
        """Numbers of shape (..., b, m) in the order of the steps, shape (..., n)."""
        return np.swapaxes(values, -1, -2).reshape(*values.shape[:-2], -1)[..., :steps]


def gram_blocks(arrays: Arrays) -> Any:
    """The blocks of X on each class, shape (b, m, m)."""
    n, _, apart = arrays["epochs"].tolist()
    epochs = ReadEpochs.of(chain_of(arrays, n, 1.0), apart)
    weights = weights_of(arrays["epoch_weights"], n)
    blocks, _ = epochs.resolvents(weights, arrays["poles"] ** 2)
    return weights_of(np.einsum("k,kcij->cij", arrays["weights_of_poles"], blocks), n)


def variances(arrays: Arrays) -> Any:
    """The variance of every running sum per unit of noise, shape (n,)."""
    n, _, apart = arrays["epochs"].tolist()
    chain, weights = chain_of(arrays, n, 1.0), weights_of(arrays["epoch_weights"], n)
    epochs = ReadEpochs.of(chain, apart)
    squares = [arb(pole) ** 2 for pole in arrays["poles"].tolist()]
    shares = [arb(weight) for weight in arrays["weights_of_poles"].tolist()]
    origin = 1 / sum(float(c / s) for c, s in zip(shares, squares, strict=True))
    result = 1 / float(arrays["weights_of_poles"].sum())
    result = result + origin * _sums_of_weights(arrays, weights, n)
    zeros, factors = np.array(reciprocal(squares, shares), dtype=float).reshape(-1, 2).T
    if zeros.size:
        blocks, beside = epochs.resolvents(weights, zeros)
        own = epochs.by_step(np.einsum("kcii->kci", blocks), n)
        image = chain.inner**2 * own
        image[:, :-1] += chain.beside**2 * own[:, 1:]
        image[:, :-1] -= 2 * chain.inner[:-1] * chain.beside * epochs.by_step(beside, n)[:, 1:]
        result = result + (factors / zeros) @ (1 - image)
    return result


def nuclear_norm(arrays: Arrays, u: Any, weights: Any) -> float:
    """At most tr (diag(u) A W A^T)^(1/2), for weights of shape (b, m, m) of the first steps."""
    n = len(u)
    names = ("rates", "query_weights", "step_weights")
    shorter = {name: arrays[name][: n - (name == "rates")] for name in names}
    weights = weights_of(weights, n)
    epochs = ReadEpochs.of(chain_of(shorter, n, u), len(weights))
    largest = 0.5 * math.log(float((u * _sums_of_weights(shorter, weights, n)).sum()))
    value, y = 0.0, np.arange(-largest - BELOW, -largest + ABOVE, STEP)
    for part in np.array_split(y, math.ceil(weights[0].size * y.size / BATCH)):
        blocks, _ = epochs.resolvents(weights, np.exp(2 * part))
        value += float(np.exp(part) @ np.einsum("kcij,cij->k", blocks, weights))
    return value * STEP * 2 / math.pi / (1 + STEP_ERROR)


def weights_of(blocks: Any, steps: int) -> Any:
    """Blocks of classes that are 0 beyond the last step."""
    real = _by_class(np.ones(steps), len(blocks), 0.0)
    return blocks * real[:, :, None] * real[:, None]


def _by_class(values: Any, apart: int, fill: float) -> Any:
    """Numbers of steps, shape (n,), as (b, m)."""
    members = -(-values.size // apart)
    padded = np.full(apart * members, fill)
    padded[: values.size] = values
    return padded.reshape(members, apart).T


def _across(Y: Any, middle: Any) -> Any:
    return np.swapaxes(Y, 1, 2) @ middle @ Y


def _sums_of_weights(arrays: Arrays, weights: Any, n: int) -> Any:
    """diag(A W A^T), shape (n,): from each step to the next with the terms of the new step."""
    apart = len(weights)
    q, h = (np.broadcast_to(arrays[name], n) for name in ("query_weights", "step_weights"))
    rates = np.broadcast_to(arrays["rates"], n - 1)
    rows = np.zeros(weights.shape[:2])  # of A, as of the last step of each class
    result, value = np.empty(n), 0.0
    for t in range(n):
        e, c = divmod(t, apart)
        rate = rates[t - 1] if t else 0.0
        rows[c] *= np.prod(rates[max(t - apart, 0) : t]) if e else 0.0
        added = h[t] * (2 * weights[c, e] @ rows[c] + h[t] * weights[c, e, e])
        rows[c, e] = h[t]
        value = rate**2 * value + added
        result[t] = q[t] ** 2 * value
    return result


def check_several(header: Header, arrays: Arrays, queries: Queries, checks: Checks) -> None:
    """All claims of fixed epochs, or of a stream for several participations; Gaussian noise."""
    pattern, p = Pattern.of(header.get("participation", "1,min-sep=1")), float(header["p"])
    check_sums(arrays, queries, checks)
    if "epochs" in arrays:
        n = int(arrays["epochs"][0])
        if arrays["epoch_weights"].size > MOST_NUMBERS:
            checks.unchecked("claims", "the blocks of so many classes take too long")
            return
        _size_of(weights_of(arrays["epoch_weights"], n))
        square = _of_blocks(gram_blocks(arrays), pattern)
        spread = spread_of((variances(arrays), 1))
    elif "coefficients" in arrays:
        r = arrays["coefficients"]
        n, bands = r.size, np.flatnonzero(r).max() + 1
        if n * bands > MOST_PRODUCTS:
            checks.unchecked("claims", f"{n} steps of {bands} bands take too long")
            return
        square, spread = _of_bands(r, pattern), spread_of((_variances(arrays, bands), 1))
    else:
        n = len(arrays["w"])
        if too_long(arrays, checks):
            return
        square, spread = _of_stream(arrays, pattern), deviations(arrays)
    drawn = None
    if "coefficients" in arrays:
        drawn = pattern.drawn(int(bands), float(np.linalg.norm(r)), n)
    sensitivities = {} if square is None else {"l2": rounded(math.sqrt(square))}
    lower = _lower(arrays, pattern, p, n)
    computed = Computed(spread, n, sensitivities.get, lower, drawn=drawn)
    check_computed(header, computed, checks)


def _size_of(weights: Any) -> float:
    """The sum of the largest weight of a step in each class.

    Raises:
        ValueError: the blocks are not symmetric and positive semidefinite.
    """
    size = float(np.einsum("cii->ci", weights).max(axis=1).sum())
    apart = float(np.abs(weights - np.swapaxes(weights, 1, 2)).max())
    if apart > 1e-12 * size or np.linalg.eigvalsh(weights).min() < -1e-12 * size:
        raise ValueError("weights of steps are not symmetric and positive semidefinite")
    return size


def _of_blocks(blocks: Any, pattern: Pattern) -> float | None:
    """The largest sum of abs(X_ij) over a pattern; None for one that is not part of a class."""
    classes, members, _ = blocks.shape
    if not pattern.fixed or pattern.apart != classes:
        return None
    k = min(pattern.times, members)
    windows = np.lib.stride_tricks.sliding_window_view(np.abs(blocks), (k, k), axis=(1, 2))
    return float(windows.diagonal(axis1=1, axis2=2).sum(axis=(1, 2)).max())


def _of_bands(r: Any, pattern: Pattern) -> float | None:
    """The largest sum of X_ij over a pattern; None if it might not be the first one."""
    if r.min() < 0 or not (pattern.fixed or (np.diff(r) <= 0).all()):
        return None
    total = np.zeros(r.size)
    for start in range(0, pattern.reach(r.size) * pattern.apart, pattern.apart):
        total[start:] += r[: r.size - start]
    return float(total @ total)


def _variances(arrays: Arrays, bands: int) -> Any:
    """Of sums of one rate: the file is checked to be for those."""
    r, rate = arrays["coefficients"], arrays["rates"]
    ones = (arrays[name] == 1 for name in ("query_weights", "step_weights"))
    if (rate != rate[0]).any() or not all(one.all() for one in ones):
        raise ValueError("coefficients are for running sums of one rate")
    first = np.zeros(r.size)
    first[0] = 1.0
    inverse = scipy.signal.lfilter([1.0], r[:bands], first)
    return np.cumsum(scipy.signal.lfilter([1.0], [1.0, -rate[0]], inverse) ** 2)


def _of_stream(arrays: Arrays, pattern: Pattern) -> float:
    """At least the largest sum of abs(X_ij) over a pattern."""
    w, reach = arrays["w"], pattern.reach(len(arrays["w"]))
    chain = chain_of(arrays, w.size, arrays["u"]).scaled(w)
    diagonal, pivots = chain.inverse_diagonals(arrays["poles"] ** 2)
    entries = diagonal * arrays["weights_of_poles"] / w[:, None]
    falls = (chain.inner[:-1] * chain.beside * np.sqrt(w[1:] / w[:-1]))[:, None] / pivots[:-1]
    longest = float(entries.sum(axis=1).max())
    if falls.max(initial=0.0) > 1:
        return reach**2 * longest
    with np.errstate(divide="ignore"):
        logs = np.vstack([np.zeros(falls.shape[1]), np.cumsum(np.log(falls), axis=0)])
    square = reach * longest
    for times in range(1, reach):
        far = times * pattern.apart
        products = entries[far:] * np.exp(logs[far:] - logs[:-far])
        square += 2 * (reach - times) * float(products.sum(axis=1).max())
    return square


def _lower(arrays: Arrays, pattern: Pattern, p: float, steps: int) -> Any:
    """What dual weights prove: of single steps, or of classes of the first ones."""
    if "dual_w" not in arrays or "dual_steps" in arrays:
        return None
    u, w = arrays["dual_u"], arrays["dual_w"]
    if u.ndim > 1 or u.size > steps:
        raise ValueError("dual weights are for steps that there are not")
    if w.ndim == 1:
        return lower_bound({"w": w, **arrays}, p)
    count, members = w.shape[:2]
    if w.size > MOST_NUMBERS or members != -(-u.size // count) or u.min() < 0:
        return None
    if not pattern.allows(np.arange(count)[:, None] + count * np.arange(members)):
        raise ValueError("dual weights are for steps of which a person cannot take part in all")
    w = weights_of((w + np.swapaxes(w, 1, 2)) / 2, u.size)
    size = _size_of(w)
    proved = rounded(nuclear_norm(arrays, u, w))
    return proved / root(dual_norm(u.tolist(), p) * arb(size))
