r"""Strategies in whole numbers, for noise that is exact: Z and its units (`mechanisms.lattice`).

Stacks. A strategy that measures diag(w) (x)_i M_i of some tables (`strategies.structured.Term`):

    exact     every M_i is integer up to a power of two (counts, contrasts, trees): row j is
              c_j (x)_i M_i, c_j = round(2^k w_j), with the unit w_j / c_j
    rounded   f(x) = round(2^k R x): every M_i and w are rounded to whole numbers, of so many bits
              more than the lattice has that R x is off by less than 1/8 unit a record; their
              product is exact, whatever its number of digits, and rounded once

so that no entry of a difference of two images is more than `SLACK` units above that of R, and
answers, of L of R, are off by half a unit a measurement and one a record at most. More precisely,
let the rounded parts of a term be below 2^t_1, 2^t_2 ... and have p bits each: an entry of a column
of R, a product of one entry of each, is off by less than `count` 2^(t_1 + t_2 + ... - p - 1).

Blocks, coordinates at regions and running sums are rounded in the same way; an identity with rows
is rounded as it is, to a strategy of the same form. Running sums go by their recurrence,

    (C x)_i = C_ii x_i + g_i^T z,      z <- lambda(i + 1) (z + x_i)      (K numbers of state)

with all coefficients rounded to PRECISION bits after the point, and z after every step. Steps
shrink the previous state (0 <= lambda <= 1), so that z is off by n 2^-PRECISION at most, whatever x
is: n (1 + sum_k g_ik) 2^-PRECISION, with all coefficients, is far below half a unit.

Counts at regions are multiplied by whole numbers: sensitivities are sums of whole numbers over
paths (`Tree.above`, `Tree.farthest`): exact.

Matrices.

    exact         2^k R has whole entries: Z = 2^k R
    full rank     R of full column rank: Z = round(2^k R); under replace, where R 1 = 0, the rank is
                  n - 1 and Z 1 N/n, which is public, is subtracted from y
    row space     R = M S, S whole and independent rows of the workload: Z = round(2^k M) S, so that
                  the rows of Z lie in the row space of the workload again
    anything else Z = round(2^k R), and L of R itself: the answer is off by at most
                  2^(-k-1) norm(L_i)_1 a person, which the manifest states

k is raised until the error computed from Z is within 1e-6 of that of R (`release.noise`).

Rank: the singular values of R' computed in floating point are off by n 2^-53 norm(R'), far below
the RANK_CUTOFF 1e-10 of the strategies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any, NamedTuple

import numpy as np
import scipy

from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms.integers import (
    Image,
    Integers,
    contrasts,
    largest_absolute_column,
    largest_square_column,
    multiples,
    rounded_matrix,
    scaled,
    shifted,
    times,
)
from pmldesign.mechanisms.lattice import Lattice, TableImage
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.noise import Noise
from pmldesign.strategies import Strategy, StructuredStrategy
from pmldesign.strategies.base import BesideTables
from pmldesign.strategies.beside import BesideStrategy
from pmldesign.strategies.blocks import BlockStrategy
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.strategies.nested.tables import RegionTablesStrategy
from pmldesign.strategies.participation.schema import rows_of
from pmldesign.strategies.participation.strategy import without_participation
from pmldesign.strategies.recurrent import RecurrentStrategy
from pmldesign.strategies.residuals import Contrasts
from pmldesign.strategies.structured import Term
from pmldesign.workloads.base import Workload
from pmldesign.workloads.nested.tables import along_axes, farthest_tables, table_sums
from pmldesign.workloads.terms.constructors import TablesWorkload
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker

BITS_OF_EXACT = 30
"""A factor whose entries, times a power of two, are whole numbers of so many bits is whole."""
SLACK, MOST_BITS = 2.0, 62
PRECISION = 160
"""Bits: with 2^53 people, 2^48 units of the lattice and 2^30 steps there are 29 to spare."""
SPAN = 1e-9
"""R = M S holds if no row of R is farther from the row space of S than this part of it."""


def lattice_of(strategy: Strategy, workload: Workload, bits: int) -> Lattice:
    """A strategy in whole numbers.

    Args:
        strategy: R, or R P given the invariants.
        workload: A, given the invariants.
        bits: k; entries are at most about 2^k times those that the structure brings.

    Raises:
        InvalidInputError: too large to be materialized, if that is needed; or participation in the
            steps of a stream.
    """
    people = rows_of(strategy.participation)
    measured = without_participation(strategy)
    lattice = _lattice(measured, measured, workload, bits)
    return lattice if people is None else replace(lattice, rows=people)


@singledispatch
def _lattice(strategy: Strategy, measured: Strategy, workload: Workload, bits: int) -> Lattice:
    """The lattice of R, for `measured`: R, or R P with the rows of R."""
    terms = strategy.terms if isinstance(strategy, StructuredStrategy) else None
    if terms is not None:
        return _stack(strategy, terms, measured, bits)
    if type(strategy) is Strategy:
        return matrix_lattice(strategy, workload, bits)
    return biased_lattice(measured, measured.matrix, bits)


@_lattice.register
def _beside(strategy: BesideStrategy, measured: Strategy, workload: Workload, bits: int) -> Lattice:
    return _lattice(strategy.whole, measured, workload, bits)


@_lattice.register
def _beside_tables(strategy: BesideTables, measured: Strategy, _: Workload, bits: int) -> Lattice:
    return biased_lattice(measured, strategy.whole.matrix, bits)


class _Whole(NamedTuple):
    """A term whose factors are whole: those, and the numbers that their rows are multiplied by."""

    term: Term
    maps: list[Integers | Contrasts | None]
    weights: Array


def _stack(strategy: Strategy, terms: Sequence[Term], measured: Strategy, bits: int) -> Lattice:
    whole = [_whole(term) for term in terms]
    exact = [part for part in whole if part is not None]
    if len(exact) == len(whole):
        return exact_lattice(strategy, exact, measured, bits)
    return rounded_lattice(strategy, terms, measured, bits)


def _whole(term: Term) -> _Whole | None:
    """The term, if its factors are integer up to a power of two."""
    maps: list[Integers | Contrasts | None] = []
    weights = np.atleast_1d(term.weight)
    for factor in term.maps:
        if factor is None or isinstance(factor, Contrasts):
            maps.append(factor)
            continue
        rounded, unit, exact = rounded_matrix(factor, BITS_OF_EXACT)
        if not exact:
            return None
        common = int(np.gcd.reduce(rounded, axis=None))
        power = common & -common
        maps.append(rounded // power)
        weights = weights * (unit * power)
    return _Whole(term, maps, weights)


def exact_lattice(
    strategy: Strategy, parts: Sequence[_Whole], measured: Strategy, bits: int
) -> Lattice:
    """Whole factors of terms, each row times a whole number."""
    rows = [part.term.rows for part in parts]
    pairs = zip(parts, rows, strict=True)
    weights = np.concatenate([np.broadcast_to(part.weights, count) for part, count in pairs])
    factors, units = multiples(weights, bits)

    def of_tables(tables: Sequence[Integers]) -> Integers:
        images = []
        for part, table in zip(parts, tables, strict=True):
            maps = [_integer_map(factor) for factor in part.maps]
            images.append(kronecker.apply(maps, part.term.axes, table))
        return scaled(np.concatenate(images), factors)

    image, tables = _images(strategy, [part.term for part in parts], of_tables)
    ends = np.cumsum(rows)
    lengths = _exact_lengths(parts, np.split(factors, ends[:-1]))
    return Lattice(measured, measured, units, image, tables=tables, lengths=lengths)


def _exact_lengths(
    parts: Sequence[_Whole], factors: Sequence[Integers]
) -> dict[tuple[Neighbours, Noise], int]:
    """Sensitivities of tables of counts, whose farthest cells differ in all; and of one product."""
    lengths = {}
    noises = (Noise.LAPLACE, 1, largest_absolute_column), (Noise.GAUSSIAN, 2, largest_square_column)
    counts = all(factor is None for part in parts for factor in part.maps)
    same = all(part.weights.size == 1 for part in parts)
    for noise, power, norm_of in noises:
        if counts and same:
            own = [int(c[0]) ** power for c in factors]
            wide = [value for value, c in zip(own, factors, strict=True) if len(c) > 1]
            lengths[Neighbours.ADD_REMOVE, noise] = sum(own)
            lengths[Neighbours.REPLACE, noise] = 2 * sum(wide)
        elif counts and len(parts) == 1:  # every cell has a row of its own
            *_, second, first = [0, *sorted(int(c) ** power for c in factors[0])]
            lengths[Neighbours.ADD_REMOVE, noise] = first
            lengths[Neighbours.REPLACE, noise] = first + second if len(factors[0]) > 1 else 0
        elif same and len(parts) == 1 and not any(isinstance(M, Contrasts) for M in parts[0].maps):
            columns = [norm_of(M) for M in parts[0].maps if isinstance(M, np.ndarray)]
            lengths[Neighbours.ADD_REMOVE, noise] = int(factors[0][0]) ** power * math.prod(columns)
    return lengths


@_lattice.register
def _rows(strategy: IdentityAndRows, measured: Strategy, _: Workload, bits: int) -> Lattice:
    """The identity and its rows, rounded: a strategy of the same form and of full column rank."""
    if measured is not strategy or not len(strategy.rows):
        return _stack(strategy, strategy.terms, measured, bits)
    both, unit, _exact = rounded_matrix(np.vstack([strategy.diagonal, strategy.rows]), bits)
    both[0] = np.maximum(both[0], 1)  # so that no cell is left out
    rounded = IdentityAndRows(strategy.name, both[0] * unit, both[1:] * unit)

    def image(x: Integers) -> Integers:
        return np.concatenate([scaled(x, both[0]), times(both[1:], x)])

    lengths = {
        (Neighbours.ADD_REMOVE, Noise.LAPLACE): largest_absolute_column(both),
        (Neighbours.ADD_REMOVE, Noise.GAUSSIAN): largest_square_column(both),
    }
    units = np.full(strategy.shape[0], unit)
    return Lattice(rounded, rounded, units, image, lengths=lengths)


def rounded_lattice(
    strategy: Strategy, terms: Sequence[Term], measured: Strategy, bits: int
) -> Lattice:
    """Factors and weights of terms rounded, their product exact and rounded once."""
    factors = {id(M): M for term in terms for M in term.maps if isinstance(M, np.ndarray)}
    tops = {key: _exponent(M) for key, M in factors.items()}
    heights = [_exponent(np.atleast_1d(term.weight)) for term in terms]
    counts = [1 + sum(isinstance(M, np.ndarray) for M in term.maps) for term in terms]
    sums = [
        height + sum(_height(M, tops) for M in term.maps)
        for height, term in zip(heights, terms, strict=True)
    ]
    plan = _Precision.of(measured, sums, counts, bits)
    turns = {key: partial(times, plan.whole(M, tops[key])) for key, M in factors.items()}
    weights = [
        plan.whole(np.atleast_1d(term.weight), height).astype(object)
        for term, height in zip(terms, heights, strict=True)
    ]
    shifts = [
        count * plan.precision - height - sum(tops[id(M)] for M in term.maps if id(M) in tops)
        for count, height, term in zip(counts, heights, terms, strict=True)
    ]

    def of_tables(tables: Sequence[Integers]) -> Integers:
        images = []
        for term, weight, shift, table in zip(terms, weights, shifts, tables, strict=True):
            maps = [turns[id(M)] if id(M) in turns else _integer_map(M) for M in term.maps]
            rows = kronecker.apply(maps, term.axes, table).astype(object)
            rows = rows.reshape(len(rows), -1) * weight[:, None]
            images.append(shifted(rows, shift + plan.unit).reshape(-1, *table.shape[1:]))
        return np.concatenate(images)

    image, tables = _images(strategy, terms, of_tables)
    return replace(_of_image(measured, image, plan.unit), tables=tables)


def _height(factor: Any, tops: dict[int, int]) -> int:
    """The t with all entries of a factor below 2^t."""
    if isinstance(factor, Contrasts):
        return (factor.values - 1).bit_length()
    return tops.get(id(factor), 0)


def _integer_map(factor: Integers | Contrasts | None) -> Image:
    if factor is None:
        return np.asarray
    return contrasts if isinstance(factor, Contrasts) else partial(times, factor)


def _images(
    strategy: Strategy,
    terms: Sequence[Term],
    of_tables: Callable[[Sequence[Integers]], Integers],
) -> tuple[Image, TableImage | None]:
    """X -> Z x, and the tables that it needs if these are not all cells."""
    if not strategy.from_tables:
        return lambda x: of_tables([x] * len(terms)), None
    assert isinstance(strategy, StructuredStrategy)
    subsets = tuple(term.subset for term in terms)
    counted = partial(table_counts, strategy.sizes, subsets)
    return lambda x: of_tables(counted(x)), TableImage(strategy.sizes, subsets, of_tables)


def table_counts(
    sizes: Sequence[int], subsets: Sequence[tuple[int, ...]], x: Integers
) -> list[Integers]:
    """The tables of a histogram of fewer than 2^53 people, whose sums are exact."""
    tables = TablesWorkload(sizes, subsets)
    counts = tables.split(tables.matvec(x.astype(np.float64)))
    return [np.rint(table).astype(np.int64) for table in counts]


def table_of_ones(sizes: Sequence[int], subset: Sequence[int]) -> Integers:
    """The table of a histogram of ones, whose numbers may have any number of digits."""
    cells = math.prod(sizes[i] for i in subset)
    return np.full(cells, math.prod(sizes) // cells, dtype=object)


@dataclass(frozen=True)
class _Precision:
    """Of the parts of an image.

    Attributes:
        unit: the exponent of the unit of the lattice.
        precision: p, bits of each part.
    """

    unit: int
    precision: int

    @classmethod
    def of(
        cls, measured: Strategy, sums: Sequence[int], counts: Sequence[int], bits: int
    ) -> _Precision:
        """For products of `counts` parts below 2^sums, where the lattice has so many bits."""
        top = math.frexp(_farthest(measured, "l2"))[1]
        more = max(*sums, top) - top + max(counts).bit_length() + 2
        bits = min(bits, MOST_BITS - more)
        return cls(top - bits, bits + more)

    def whole(self, part: Array, top: int) -> Integers:
        """round(2^(p - top) M), below 2^p except for rounding; p is at most 62."""
        return np.rint(np.ldexp(part, self.precision - top)).astype(np.int64)


def _exponent(matrix: Array) -> int:
    """The least t with all entries below 2^t."""
    return math.frexp(float(np.abs(matrix).max(initial=0.0)))[1]


def _of_image(measured: Strategy, image: Image, exponent: int) -> Lattice:
    """The lattice of an image that is rounded to units of 2^exponent."""
    unit, rows = math.ldexp(1.0, exponent), measured.shape[0]
    off, units = _distortion(measured, SLACK * unit), np.full(rows, unit)
    return Lattice(measured, measured, units, image, slack=SLACK, distortion=off, bias=unit)


def _distortion(strategy: Strategy, step: float) -> float:
    """The part by which distances of columns grow if every entry can grow by a step."""
    rows = strategy.shape[0]
    sizes: dict[Norm, float] = {"l1": rows, "l2": math.sqrt(rows)}
    return max(step * size / _farthest(strategy, norm) for norm, size in sizes.items())


def _farthest(strategy: Strategy, norm: Norm) -> float:
    """The distance of two columns, or the length of one if all are the same."""
    apart = strategy.sensitivity_under(Neighbours.REPLACE, norm)
    return apart or strategy.sensitivity_under(Neighbours.ADD_REMOVE, norm)


@_lattice.register
def _blocks(strategy: BlockStrategy, measured: Strategy, _: Workload, bits: int) -> Lattice:
    """Blocks for each combination of the other attributes."""
    tops = [_exponent(basis) for basis in strategy.bases]
    top = max(_exponent(block.matrix) for block in strategy.blocks)
    count, total = 1 + len(tops), top + sum(tops)
    plan = _Precision.of(measured, [total], [count], bits)
    maps = [partial(times, plan.whole(block.matrix, top)) for block in strategy.blocks]
    turns = [
        partial(times, plan.whole(basis.T, t))
        for basis, t in zip(strategy.bases, tops, strict=True)
    ]
    shift = count * plan.precision - total + plan.unit

    def image(x: Integers) -> Integers:
        return shifted(strategy.through(x, maps, turns), shift)

    return _of_image(measured, image, plan.unit)


@_lattice.register
def recurrence_lattice(
    strategy: RecurrentStrategy, measured: Strategy, _: Workload | None, bits: int
) -> Lattice:
    """Running sums and ranges by their recurrence; invariants are taken out of the estimates."""
    top = math.frexp(_farthest(measured, "l2"))[1]
    chain = strategy.factor
    diagonal, gains, decays = (
        _to_precision(values).tolist() for values in (chain.diagonal, chain.gains, chain.decays)
    )
    shift = 2 * PRECISION - (bits - top)

    def image(x: Integers) -> Integers:
        state = [0] * strategy.buffers
        rows = []
        for d, g, fading, count in zip(diagonal, gains, decays, x.tolist(), strict=True):
            state = [(rate * z) >> PRECISION for rate, z in zip(fading, state, strict=True)]
            told = sum(map(int.__mul__, g, state))
            rows.append((told + (d * count << PRECISION) + (1 << shift - 1)) >> shift)
            state = [z + (count << PRECISION) for z in state]
        return np.array(rows, dtype=object)

    lattice = _of_image(measured, image, top - bits)
    # sensitivities are those of X^(1/2); the recurrence is rounded
    off = max(0.0, strategy.measured_length / strategy.sensitivity - 1)
    return replace(lattice, distortion=lattice.distortion + 2 * off)


def _to_precision(values: Array) -> Integers:
    """round(2^PRECISION values), exact: floats have 53 bits."""
    mantissas, exponents = np.frexp(values)
    digits: Any = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    shifts = np.vectorize(lambda e: int(e) + PRECISION - 53, otypes=[object])(exponents)
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    return np.asarray((digits << left) >> right)


@_lattice.register
def _regions(strategy: RegionTablesStrategy, measured: Strategy, _: Workload, bits: int) -> Lattice:
    """Tables at regions, or counts alone, each times a whole number."""
    if strategy.ordered:
        return _ordered_regions(strategy, measured, bits)
    tree, weights = strategy.tree, strategy.of_nodes
    kept = weights > 0
    factors, units = multiples(weights[kept], bits)
    absolute = np.zeros(weights.shape, dtype=object)
    absolute[kept] = factors.astype(object)
    answers = strategy.spaces.answers.astype(np.intp)[np.nonzero(kept)[0]]
    apart = strategy.coordinates.distances(strategy.tables, "l2")[1]
    twice = apart.astype(int).astype(object)  # 2 or 0

    def image(x: Integers) -> Integers:
        tables = []
        for table, nodes, row in zip(strategy.tables, strategy.measured, absolute, strict=True):
            counts = table_sums(tree, strategy.sizes, table, x)[tree.place_of_node[nodes]]
            tables.append(scaled(counts, row[nodes]).reshape(-1, *x.shape[1:]))
        return np.concatenate(tables)

    lengths = {}
    for noise, values in ((Noise.LAPLACE, absolute), (Noise.GAUSSIAN, absolute**2)):
        longest = tree.above(values.sum(axis=0)).max()
        lengths[Neighbours.ADD_REMOVE, noise] = int(longest)
        farthest = farthest_tables(tree, values, twice, strategy.tops)
        lengths[Neighbours.REPLACE, noise] = int(farthest)
    return Lattice(measured, measured, np.repeat(units, answers), image, lengths=lengths)


def _ordered_regions(strategy: RegionTablesStrategy, measured: Strategy, bits: int) -> Lattice:
    """Coordinates of ordered attributes at regions, rounded."""
    tree, sizes = strategy.tree, strategy.sizes
    rows = {i: part.rows for i, part in strategy.ordered.items()}
    tops, height = {i: _exponent(Y) for i, Y in rows.items()}, _exponent(strategy.weights)
    inner = [[i for i in table if i in rows] for table in strategy.tables]
    sums = [height + sum(tops[i] for i in members) for members in inner]
    counts = [1 + len(members) for members in inner]
    # the distances of R itself, which bound those of R P as well
    plan = _Precision.of(strategy, sums, counts, bits)
    turns = {i: partial(times, plan.whole(Y, tops[i])) for i, Y in rows.items()}
    weights = plan.whole(strategy.of_nodes, height).astype(object)
    shifts = [
        count * plan.precision - total + plan.unit
        for count, total in zip(counts, sums, strict=True)
    ]

    def image(x: Integers) -> Integers:
        images = []
        for table, nodes, shift, row in zip(
            strategy.tables, strategy.measured, shifts, weights, strict=True
        ):
            sums = table_sums(tree, sizes, table, x)[tree.place_of_node[nodes]]
            maps = [turns.get(i) for i in table]
            values = along_axes(maps, [sizes[i] for i in table], sums)
            moved = shifted(values.astype(object) * row[nodes][:, None], shift)
            images.append(moved.ravel())
        return np.concatenate(images)

    return _of_image(measured, image, plan.unit)


def matrix_lattice(strategy: Strategy, workload: Workload, bits: int) -> Lattice:
    """A matrix, rounded if that leaves it in the row space of the workload."""
    matrix, public = strategy.matrix, workload.public
    rounded, unit, exact = rounded_matrix(matrix, bits)
    full = strategy.rank == strategy.cells - len(public.members)
    if not (exact or full):
        rows = independent_rows(workload)
        through = None if rows is None else through_rows(matrix, rows, bits, public.centre)
        if through is None:
            return biased_lattice(strategy, matrix, bits)
        rounded, unit = through
    measured = Strategy(strategy.name, public.centre(rounded * unit), public=public)
    if measured.rank != strategy.rank:
        return biased_lattice(strategy, matrix, bits)
    units = np.full(len(rounded), unit)
    return Lattice(measured, measured, units, partial(times, rounded), rounded)


def biased_lattice(strategy: Strategy, matrix: Array, bits: int) -> Lattice:
    """A matrix that is rounded whatever its rows are; answers are those of R itself."""
    rounded, unit, exact = rounded_matrix(matrix, bits)
    units, bias = np.full(len(rounded), unit), 0.0 if exact else unit / 2
    measured, distortion = strategy, 0.0
    if strategy.distance_profile("l2") is None:
        measured = Strategy(strategy.name, rounded * unit, public=strategy.public)
    else:  # every distance counts as the largest: unit is what two rounded columns add to it
        distortion = 2 * _distortion(strategy, unit)
    image = partial(times, rounded)
    return Lattice(measured, strategy, units, image, rounded, distortion=distortion, bias=bias)


def independent_rows(workload: Workload) -> Integers | None:
    """S: independent queries that span all, if queries are whole; None if they are not."""
    try:
        queries, spanned = workload.whole.to_dense(), workload.to_dense()
    except InvalidInputError:
        return None
    if (queries != np.rint(queries)).any() or np.abs(queries).max() > 2**20:
        return None
    triangle, order = scipy.linalg.qr(spanned.T, mode="r", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    rank = int((sizes > 1e-10 * sizes[0]).sum())
    return queries[np.sort(order[:rank])].astype(np.int64)


def through_rows(
    matrix: Array, rows: Integers, bits: int, project: Callable[[Array], Array]
) -> tuple[Integers, float] | None:
    """Z = round(2^k M) S and 2^-k for R = M S P; None if R is not of that form.

    Args:
        matrix: R, shape (r, n).
        rows: S.
        bits: k.
        project: X -> X P.
    """
    span = project(rows.astype(np.float64))
    mixing = np.linalg.lstsq(span.T, matrix.T, rcond=None)[0].T.astype(np.float64)
    missed = np.abs(mixing @ span - matrix).max()
    if missed > SPAN * np.abs(matrix).max():
        return None
    rounded, unit, _ = rounded_matrix(mixing, min(bits, 40))
    product = times(rounded, rows)
    if product.dtype == object or np.abs(product).max() >= 2**49:
        return None
    return product, unit
