"""Workloads that have a name, as functions of their sizes.

    histogram:N         the identity
    total:N             the sum of all cells
    prefix:N            row t sums cells 0 ... t
    decay:N,RATE        row t sums RATE^(t - s) times cell s, s = 0 ... t
    sgd:N,MOMENTUM      row t sums rate_s MOMENTUM^(s - r) times cell r, r <= s <= t
    all-range:N         every interval of cells, N (N + 1) / 2 rows, ordered by first cell
    random-range:M,N    first cell uniform over the N cells, last cell uniform from there to the end
    haar:N              all ones, then I_k (x) h (x) 1_{N/2k} for k = 1, 2, 4 ... N/2, h = (1, -1)
    parity:D,W          prod_{i in S} (-1)^{x_i} for every S of W out of D bits, over 2^D cells
    at-most:N,M,...     the cells of attributes with i + j + ... <= c, for every c, of all of them
                        together or of all sets of K (ways=K); within:N,M is about |i - j|
    window:N,W          row t sums the last W cells up to t: cells max(0, t - W + 1) ... t
    sum:V,...           the sum of cells, each times its value
    marginals:N,...     all marginals of K attributes (ways=K), or of 0 to K ones (upto=K); for N an
                        attribute may have queries of its own, prefix85 for prefix:85

References:
    [ZSO] Zhao, Saeidian and Oechtering, Context-aware Privacy Bounds for Linear Queries, Section
        III-B: random ranges, and eq. (9), the Haar workload for N = 8.
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.6:
        parity queries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import combinations, groupby
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.dense import DenseWorkload
from pmldesign.workloads.ranges import (
    CountsWorkload,
    RangeWorkload,
    cells_text,
    total_of,
)
from pmldesign.workloads.running import MOST_ARRAYS, AllRangesWorkload, RunningWorkload
from pmldesign.workloads.terms.attributes import MAX_SETS
from pmldesign.workloads.terms.constructors import TablesWorkload
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign_solvers.operators.operator import Indices

if TYPE_CHECKING:
    from pmldesign.workloads.sparse import SparseWorkload

MAX_CELLS = 2**16
"""Cells of a named workload: a strategy for more would need a matrix beyond 32 GiB."""

MAX_STEPS = 2**24
"""Steps of running sums, which need no matrix: beyond, a vector of answers needs over 128 MiB."""

MAX_QUERIES = 2**24
"""Queries of a named workload or of a product: beyond, a vector of answers needs over 128 MiB."""


def histogram(cells: int) -> RangeWorkload:
    """The count of each cell, 1 <= cells <= MAX_CELLS."""
    return CountsWorkload(_size("cells N of histogram:N", cells, MAX_CELLS))


def total(cells: int) -> RangeWorkload:
    """The number of records, 1 <= cells <= MAX_CELLS."""
    return total_of(_size("cells N of total:N", cells, MAX_CELLS))


def prefix(cells: int) -> RangeWorkload:
    """The running sums, 1 <= cells <= MAX_STEPS."""
    if isinstance(cells, int) and cells > MAX_STEPS:
        raise InvalidInputError(
            f"cells N of prefix:N must be from 1 to {MAX_STEPS}, got {cells}; longer streams have "
            "no end: `pmldesign stream prefix:inf`"
        )
    n = _size("cells N of prefix:N", cells, MAX_STEPS)
    return RangeWorkload(np.zeros(n, dtype=int), np.arange(n) + 1, n, name=f"prefix:{n}")


def decay(cells: int, rate: float) -> RunningWorkload:
    """Exponentially decaying prefix sums, 1 <= cells <= MAX_STEPS, with decay 0 < rate <= 1."""
    n = _size("cells N of decay:N,RATE", cells, MAX_STEPS)
    if not 0.0 < rate <= 1.0:
        raise InvalidInputError(
            f"rate RATE of decay:{n},RATE must be above 0 and at most 1, got {rate:g}; write for"
            f" example decay:{n},0.99"
        )
    return RunningWorkload(np.full(n - 1, rate), name=f"decay:{n},{rate!r}")


RATES = ("linear", "cosine")


def sgd(cells: int, momentum: float, *, rates: str = "") -> Workload:
    """The sum of the gradients' updates of a model up to each step of descent, without the sign.

    With v_s = momentum v_{s-1} + x_s the model has moved by sum_{s <= t} rate_s v_s after step t.

    Args:
        cells: N, how many steps, 1 <= cells <= MAX_STEPS; with momentum as many as a matrix has.
        momentum: at least 0, below 1.
        rates: "linear" is 1 - s / N, "cosine" (1 + cos(pi s / N)) / 2, s from 0; all 1 without.

    Raises:
        InvalidInputError: an argument outside its range.
    """
    n = _size("cells N of sgd:N,MOMENTUM", cells, MAX_STEPS)
    if not 0.0 <= momentum < 1.0:
        raise InvalidInputError(
            f"momentum MOMENTUM of sgd:{n},MOMENTUM must be at least 0 and below 1, got"
            f" {momentum:g}; write for example sgd:{n},0.9"
        )
    if rates not in ("", *RATES):
        raise InvalidInputError(f"rates of sgd:{n},{momentum!r} must be linear or cosine")
    name, parts = f"sgd:{n},{momentum!r}" + (f",rates={rates}" if rates else ""), np.arange(n) / n
    by_name = {"": np.ones(n), "linear": 1.0 - parts, "cosine": (1.0 + np.cos(np.pi * parts)) / 2}
    if momentum == 0.0:
        return RunningWorkload(np.ones(n - 1), None, by_name[rates], name=name)
    check_entries(name, (n, n))
    lags = np.subtract.outer(np.arange(n), np.arange(n))
    kept = np.where(lags >= 0, momentum ** np.maximum(lags, 0), 0.0)
    return DenseWorkload(np.cumsum(by_name[rates][:, None] * kept, axis=0), name=name)


def all_range(cells: int) -> RangeWorkload | AllRangesWorkload:
    """The sum of every interval, 1 <= cells <= MAX_STEPS; without arrays beyond MOST_ARRAYS."""
    n = _size("cells N of all-range:N (it has N (N + 1) / 2 queries)", cells, MAX_STEPS)
    if n > MOST_ARRAYS:
        return AllRangesWorkload(n, name=f"all-range:{n}")
    first, last = np.triu_indices(n)
    return RangeWorkload(first, last + 1, n, name=f"all-range:{n}")


def random_range(queries: int, cells: int, *, seed: int = 0) -> RangeWorkload:
    """Random intervals as in [ZSO], Section III-B.

    Args:
        queries: how many, 1 <= queries <= MAX_QUERIES.
        cells: 1 <= cells <= MAX_CELLS.
        seed: of numpy's default generator, >= 0; the same seed gives the same intervals.

    Raises:
        InvalidInputError: an argument outside its range.
    """
    m = _size("queries M of random-range:M,N", queries, MAX_QUERIES)
    n = _size("cells N of random-range:M,N", cells, MAX_CELLS)
    seed = _size("seed of random-range:M,N", seed, 2**63 - 1, smallest=0)
    generator = np.random.default_rng(seed)
    first = generator.integers(0, n, size=m)
    last = generator.integers(first, n)
    return RangeWorkload(first, last + 1, n, name=f"random-range:{m},{n},seed={seed}")


def haar(cells: int) -> Workload:
    """Unnormalised Haar differences, cells a power of two up to MAX_CELLS: [ZSO] eq. (9)."""
    n = _size("cells N of haar:N", cells, MAX_CELLS)
    if n & (n - 1):
        below = 1 << (n.bit_length() - 1)
        raise InvalidInputError(
            f"cells N of haar:N must be a power of two, got {n}; try haar:{below} or "
            f"haar:{2 * below}"
        )

    from pmldesign.workloads.sparse import SparseWorkload

    lengths = [n >> level for level in range(n.bit_length() - 1)]  # N, N/2, ..., 2
    values = [np.ones(n)]
    values += [np.tile(np.repeat([1.0, -1.0], size // 2), n // size) for size in lengths]
    row_sizes = np.concatenate([[n], *(np.full(n // size, size) for size in lengths)])
    pointers = np.concatenate([[0], np.cumsum(row_sizes)])
    cells_of = np.tile(np.arange(n), 1 + len(lengths))
    matrix = scipy.sparse.csr_array((np.concatenate(values), cells_of, pointers), shape=(n, n))
    return SparseWorkload(matrix, name=f"haar:{n}", label=lambda row: _haar_label(row, n))


def parity(bits: int, weight: int) -> DenseWorkload:
    """The parity of every set of `weight` out of `bits` bits, [ZLU] Definition A.6.

    Args:
        bits: D; a cell is a string of D bits, the first one most significant.
        weight: W, the size of the sets, which come in lexicographic order.

    Returns:
        The (D choose W) x 2^D matrix of the signs prod_{i in S} (-1)^{x_i}.

    Raises:
        InvalidInputError: not 1 <= W <= D <= log2(MAX_CELLS), or a matrix that is too large.
    """
    d = _size("bits D of parity:D,W (it has 2^D cells)", bits, MAX_CELLS.bit_length() - 1)
    w = _size(f"bits in a parity W of parity:{d},W", weight, d)
    name = f"parity:{d},{w}"
    check_entries(name, (math.comb(d, w), 2**d))
    sets = list(combinations(range(d), w))
    cells = np.arange(2**d)
    signs = np.array([1.0 - 2.0 * (cells >> (d - 1 - bit) & 1) for bit in range(d)])
    matrix = np.empty((len(sets), cells.size))
    for row, chosen in zip(matrix, sets, strict=True):
        np.prod(signs[list(chosen)], axis=0, out=row)
    return DenseWorkload(
        matrix,
        name=name,
        copy=False,
        label=lambda row: f"row {row} (parity of bits {', '.join(map(str, sets[row]))})",
    )


def window(cells: int, width: int) -> RangeWorkload:
    """The sliding-window sum of a stream: at every time t the sum of the last `width` cells.

    The first width - 1 windows are cut off at the start of the stream, so that there is one query
    for each cell.

    Args:
        cells: N, the length of the stream, 1 <= cells <= MAX_CELLS.
        width: W, 1 <= width <= cells; window:N,N is prefix:N.

    Raises:
        InvalidInputError: an argument outside its range.
    """
    n = _size("cells N of window:N,W", cells, MAX_CELLS)
    w = _size(f"width W of window:{n},W", width, n)
    stops = np.arange(n) + 1
    return RangeWorkload(np.maximum(0, stops - w), stops, n, name=f"window:{n},{w}")


def at_most(*sizes: int, ways: int | None = None) -> Workload:
    """The cells of several attributes whose places (from 0) add up to at most c, for every c.

    Args:
        sizes: number of values of each attribute, two at least; those that are joined have at most
            MAX_CELLS cells together.
        ways: size of the sets of attributes, each with these queries; None for all attributes.
    """
    return _joining("at-most", sizes, ways, np.add)


def within(*sizes: int, ways: int | None = None) -> Workload:
    """The cells of two attributes with |i - j| <= c, for every c; arguments as of `at_most`."""
    if (ways or len(sizes)) != 2:
        raise InvalidInputError(
            f"within joins two attributes, got {ways or len(sizes)}; within:8,8,8,ways=2 is about"
            " all pairs"
        )
    return _joining("within", sizes, ways, np.subtract)


def _joining(name: str, sizes: Sequence[int], ways: int | None, join: np.ufunc) -> Workload:
    """Thresholds of the joined values of attributes, for all sets of `ways` attributes."""
    if len(sizes) < 2:
        raise InvalidInputError(f"{name} joins two attributes or more, got {len(sizes)}")
    count = len(sizes) if ways is None else _size(f"ways=K of {name}", ways, len(sizes), smallest=2)
    if math.comb(len(sizes), count) > MAX_SETS:
        raise InvalidInputError(f"ways={count} of {len(sizes)} attributes are over {MAX_SETS} sets")
    made: dict[tuple[int, ...], SparseWorkload] = {}
    tables: list[dict[tuple[int, ...], Workload]] = []
    for subset in combinations(range(len(sizes)), count):
        chosen = tuple(sizes[i] for i in subset)
        if chosen not in made:
            made[chosen] = _thresholds(name, chosen, join)
        tables.append({subset: made[chosen]})
    if len(tables) == 1:
        return made[tuple(sizes)]
    return TablesWorkload(sizes, tables, name=f"{name}:{_runs(sizes)},ways={count}")


def _thresholds(name: str, sizes: tuple[int, ...], join: np.ufunc) -> SparseWorkload:
    left = MAX_CELLS
    for size in sizes:
        left //= _size(f"values of {name}", size, left)
    places = np.unravel_index(np.arange(math.prod(sizes)), sizes)
    return _levels(f"{name}:{','.join(map(str, sizes))}", np.abs(reduce(join, places)))


def _levels(name: str, values: Indices) -> SparseWorkload:
    """For every c the cells whose value is at most c."""
    from pmldesign.workloads.sparse import SparseWorkload

    levels = np.arange(values.max() + 1)
    matrix = scipy.sparse.csr_array((values <= levels[:, None]).astype(np.float64))
    queries = SparseWorkload(matrix, name=name, label=lambda c: f"row {c} (at most {c})")
    queries.binary = True
    return queries


def sum_of_values(*values: float) -> DenseWorkload:
    """One query: the sum of the cells, each times its value, at most MAX_CELLS of them."""
    _size("cells of sum:VALUE,...", len(values), MAX_CELLS)
    texts = (f"{value:.15g}" for value in values)
    return DenseWorkload([list(values)], name=f"sum:{','.join(texts)}")


def all_marginals(
    *sizes: int | Workload, ways: int | None = None, upto: int | None = None
) -> TermsWorkload:
    """All marginals of a number of attributes.

    Args:
        sizes: number of values of each attribute, or the queries about it.
        ways: all marginals of this many attributes, 0 to the number of sizes.
        upto: all marginals of 0 (the total), 1, ... up to this many attributes.

    Raises:
        InvalidInputError: as TablesWorkload; not exactly one of ways and upto, or out of range.
    """
    option, given = ("ways", ways) if upto is None else ("upto", upto)
    if given is None or (ways is not None and upto is not None):
        raise InvalidInputError(
            "marginals take either ways=K (all K-way marginals) or upto=K (all 0- to K-way ones); "
            "write for example marginals:2,3,4,ways=2"
        )
    most = _size(f"{option}=K of marginals", given, len(sizes), smallest=0)
    lengths = range(most if upto is None else 0, most + 1)
    if sum(math.comb(len(sizes), k) for k in lengths) > MAX_SETS:
        raise InvalidInputError(
            f"{option}={most} of {len(sizes)} attributes are over {MAX_SETS} marginals; "
            f"take a smaller {option}"
        )
    subsets = [subset for k in lengths for subset in combinations(range(len(sizes)), k)]
    name = f"marginals:{_runs(sizes)},{option}={most}"
    return TablesWorkload(sizes, subsets, name=name)


def _size(argument: str, value: int, largest: int, *, smallest: int = 1) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InvalidInputError(f"{argument} must be a whole number, got {value!r}")
    if not smallest <= value <= largest:
        raise InvalidInputError(f"{argument} must be from {smallest} to {largest}, got {value}")
    return int(value)


def _haar_label(row: int, cells: int) -> str:
    if row == 0:
        return f"row 0 ({cells_text(0, cells)})"
    blocks = 1 << (row.bit_length() - 1)  # rows 2^k ... 2^(k+1) - 1 split the 2^k blocks
    half = cells // (2 * blocks)
    start = (row - blocks) * 2 * half
    middle = start + half
    return f"row {row} ({cells_text(start, middle)} minus {cells_text(middle, middle + half)})"


def _runs(sizes: Iterable[int | Workload]) -> str:
    """The sizes as text, with "10^3" for three attributes of 10 values."""
    texts = [
        size.name.replace(":", "").replace(",", "/") if isinstance(size, Workload) else str(size)
        for size in sizes
    ]
    runs = [(text, len(list(run))) for text, run in groupby(texts)]
    return ",".join(f"{text}^{count}" if count > 1 else text for text, count in runs)
