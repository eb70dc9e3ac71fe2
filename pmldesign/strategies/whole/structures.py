"""Products, blocks and tables of which several parts are rounded, never written out.

Every part, of entries up to 2^t, becomes whole numbers of EXTRA bits more than the lattice has. Of
these S x is computed exactly, whatever its number of digits, and only then rounded to the lattice:

    f(x) = round(2^k S x),      abs(f(x) - f(x'))_i <= 2^k abs(S (x - x'))_i + 1.

The entries of S are off by at most (prod_i (M_i + e_i) - prod_i M_i), M_i the largest entry of part
i and e_i half its unit. That is counted for both columns of a difference: with EXTRA = 8 bits and
at most 64 parts together less than half a unit of the lattice. So no entry of a difference is more
than `SLACK` units above that of R, and the answers, of L of R, are off by half a unit a measurement
and 2^-k a person at most.

Long running sums and ranges (`strategies.streams`) by their recurrence,

    (C x)_i = C_ii x_i + g_i^T z,      z <- lambda(i + 1) (z + x_i)      (K numbers of state)

in whole numbers: all coefficients are rounded to PRECISION bits after the point, z likewise after
every step, and what comes out is rounded to the lattice. Steps shrink what was before
(0 <= lambda <= 1), so that z is off by n 2^-PRECISION at most, whatever x is: n (1 + sum_k g_ik)
2^-PRECISION, with all coefficients, is far below half a unit. So with the last rounding no entry
of the difference of two images is more than `SLACK` units above that of C.

Tables at regions that nest, or counts alone, are multiplied by whole numbers: sensitivities are
sums of whole numbers over paths (`Tree.above`, `Tree.farthest`): exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.whole.integers import Image, Integers, multiples, scaled, shifted, times
from pmldesign.strategies.whole.lattice import Lattice
from pmldesign.strategies.whole.tables import by_tables
from pmldesign.workloads.nested.tables import along_axes, farthest_tables, table_sums
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker

if TYPE_CHECKING:
    from pmldesign.strategies.base import Strategy
    from pmldesign.strategies.blocks import BlockStrategy
    from pmldesign.strategies.kronecker import ProductStrategy
    from pmldesign.strategies.nested.tables import RegionTablesStrategy
    from pmldesign.strategies.recurrent import RecurrentStrategy
    from pmldesign.strategies.structured import CountsStrategy, Term


EXTRA, SLACK, MOST_PARTS, MOST_BITS = 8, 2.0, 64, 62
PRECISION = 160
"""Bits: with 2^53 people, 2^48 units of the lattice and 2^30 steps there are 29 to spare."""


def finer_product_lattice(strategy: ProductStrategy, bits: int) -> Lattice:
    """F of the product of the factors, and its weights."""
    finer = bits + EXTRA
    matrices = [factor.matrix for factor in strategy.factors]
    tops = [largest_exponent(matrix) for matrix in matrices]
    maps = [partial(times, whole_part(m, finer, t)) for m, t in zip(matrices, tops, strict=True)]
    weights = None if strategy.weights is None else np.sqrt(strategy.weights)
    if weights is not None:
        tops.append(largest_exponent(weights))
        whole_weights = whole_part(weights, finer, tops[-1])

    def exact(x: Integers) -> Integers:
        image: Integers = kronecker.apply(maps, strategy.sizes, x)
        return image if weights is None else scaled(image, whole_weights)

    return _rounded(strategy, exact, tops, bits)


def block_lattice(strategy: Strategy, blocks: BlockStrategy, bits: int) -> Lattice:
    """F of blocks for each combination of the other attributes.

    Args:
        strategy: R, the blocks with or without a public total.
        blocks: the blocks.
        bits: of the lattice.
    """
    finer = bits + EXTRA
    top = max(largest_exponent(block.matrix) for block in blocks.blocks)
    maps = [partial(times, whole_part(block.matrix, finer, top)) for block in blocks.blocks]
    tops = [largest_exponent(basis) for basis in blocks.bases]
    turns = [
        partial(times, whole_part(basis.T, finer, t))
        for basis, t in zip(blocks.bases, tops, strict=True)
    ]

    def exact(x: Integers) -> Integers:
        return blocks.through(x, maps, turns)

    return _rounded(strategy, exact, [*tops, top], bits)


def terms_lattice(strategy: CountsStrategy, bits: int) -> Lattice:
    """F of products on tables.

    The factors M_i of a term, of entries below 2^(t_i), and its weight are rounded to `precision`
    bits, so that an entry of F is off by a unit of the lattice times 2^(more - count) / 8 at most,
    `count` the number of factors that are rounded.
    """
    top = math.frexp(strategy.sensitivity_under(Neighbours.REPLACE, "l2"))[1]
    tops = {id(M): largest_exponent(M) for term in strategy.terms for M in _rounded_maps(term)}
    own = [math.frexp(term.weight)[1] for term in strategy.terms]
    sums = [
        weight + sum(tops[id(M)] for M in _rounded_maps(term))
        for weight, term in zip(own, strategy.terms, strict=True)
    ]
    count = 1 + max(len(_rounded_maps(term)) for term in strategy.terms)
    more = max(*sums, top) - top + count.bit_length() + 2
    bits = min(bits, MOST_BITS - more)
    precision = bits + more
    matrices = {id(M): M for term in strategy.terms for M in _rounded_maps(term)}
    turns = {
        key: partial(times, whole_part(M, precision, tops[key])) for key, M in matrices.items()
    }
    weights = [
        int(whole_part(np.array([term.weight]), precision, weight)[0])
        for term, weight in zip(strategy.terms, own, strict=True)
    ]
    shifts = [
        (1 + len(_rounded_maps(term))) * precision - exponent + top - bits
        for term, exponent in zip(strategy.terms, sums, strict=True)
    ]

    def of_tables(tables: Sequence[Integers]) -> Integers:
        parts = []
        for term, weight, shift, table in zip(strategy.terms, weights, shifts, tables, strict=True):
            maps = [np.asarray if M is None else turns[id(M)] for M in term.maps]
            rows = kronecker.apply(maps, term.axes, table)
            parts.append(shifted(rows.astype(object) * weight, shift))
        return np.concatenate(parts)

    tables = by_tables(strategy.sizes, strategy.counts.subsets, of_tables)
    return replace(lattice_of_unit(strategy, tables["image"], top - bits), **tables)


def _rounded_maps(term: Term) -> list[Array]:
    return [M for M in term.maps if M is not None]


class WholeDesigns(NamedTuple):
    """Designs of attributes in whole numbers, for weighted products of them on tables.

    Attributes:
        turns: by attribute, products with its design.
        precision: bits of the designs and of the weights.
        heaviest: the exponent of the largest weight.
        shifts: by table, bits that its products have beyond the lattice.
        unit: the exponent of the unit of the lattice.
    """

    turns: dict[int, Callable[[Integers], Integers]]
    precision: int
    heaviest: int
    shifts: list[int]
    unit: int


def whole_designs(
    strategy: Strategy,
    designs: Mapping[int, Array],
    weights: Array,
    tables: Sequence[Sequence[int]],
    bits: int,
) -> WholeDesigns:
    """Designs by attribute, of tables with weights, with so many bits of the lattice."""
    tops = {i: largest_exponent(design) for i, design in designs.items()}
    heaviest = largest_exponent(weights)
    members = [[i for i in table if i in tops] for table in tables]
    sums = [heaviest + sum(tops[i] for i in inner) for inner in members]
    top = math.frexp(strategy.sensitivity_under(Neighbours.REPLACE, "l2"))[1]
    more = max(*sums, top) - top + (1 + max(map(len, members))).bit_length() + 2
    bits = min(bits, MOST_BITS - more)
    precision = bits + more
    return WholeDesigns(
        turns={i: partial(times, whole_part(d, precision, tops[i])) for i, d in designs.items()},
        precision=precision,
        heaviest=heaviest,
        shifts=[
            (len(inner) + 1) * precision - exponent + top - bits
            for inner, exponent in zip(members, sums, strict=True)
        ],
        unit=top - bits,
    )


def chain_lattice(strategy: RecurrentStrategy, bits: int) -> Lattice:
    """F of the recurrence."""
    top = math.frexp(strategy.sensitivity_under(Neighbours.REPLACE, "l2"))[1]
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

    lattice = lattice_of_unit(strategy, image, top - bits)
    # sensitivities are those of X^(1/2); the recurrence is rounded
    off = max(0.0, strategy.measured_length / strategy.sensitivity - 1)
    return replace(lattice, distortion=lattice.distortion + 2 * off)


def _rounded(strategy: Strategy, exact: Image, tops: Sequence[int], bits: int) -> Lattice:
    """The lattice of unit 2^(sum of tops - bits) for S of parts with entries up to 2^tops."""
    if len(tops) > MOST_PARTS:
        raise InvalidInputError(
            f"strategy {strategy.name!r} has more than {MOST_PARTS} factors; leave attributes out"
        )
    shift = len(tops) * (bits + EXTRA) - bits
    return lattice_of_unit(strategy, lambda x: shifted(exact(x), shift), sum(tops) - bits)


def lattice_of_unit(strategy: Strategy, image: Image, exponent: int) -> Lattice:
    """The lattice of unit 2^exponent."""
    unit, rows = math.ldexp(1.0, exponent), strategy.shape[0]
    off, units = distortion_of(strategy, SLACK * unit), np.full(rows, unit)
    return Lattice(strategy, strategy, units, image, slack=SLACK, distortion=off, bias=unit)


def distortion_of(strategy: Strategy, step: float) -> float:
    """The part by which distances of columns grow where every entry may grow by a step."""
    rows = strategy.shape[0]
    sizes: dict[Norm, float] = {"l1": rows, "l2": math.sqrt(rows)}
    return max(
        step * size / strategy.sensitivity_under(Neighbours.REPLACE, norm)
        for norm, size in sizes.items()
    )


def largest_exponent(matrix: Array) -> int:
    """The least t with all entries below 2^t."""
    return math.frexp(float(np.abs(matrix).max(initial=0.0)))[1]


def whole_part(matrix: Array, bits: int, top: int) -> Integers:
    """round(2^(bits - top) R), below 2^bits but for rounding; bits are at most 62."""
    return np.rint(np.ldexp(matrix, bits - top)).astype(np.int64)


def _to_precision(values: Array) -> Integers:
    """round(2^PRECISION values), exact: floats have 53 bits."""
    mantissas, exponents = np.frexp(values)
    digits: Any = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    shifts = np.vectorize(lambda e: int(e) + PRECISION - 53, otypes=[object])(exponents)
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    return np.asarray((digits << left) >> right)


def region_tables_lattice(strategy: Strategy, regions: RegionTablesStrategy, bits: int) -> Lattice:
    """Tables at regions, or counts alone.

    Args:
        strategy: R, with or without what is public.
        regions: the tables.
        bits: of the lattice.
    """
    if regions.ordered:
        return ordered_tables_lattice(strategy, regions, bits)
    tree = regions.tree
    weights = regions.of_nodes
    measured = weights > 0
    factors, units = multiples(weights[measured], bits)
    absolute = np.zeros(weights.shape, dtype=object)
    absolute[measured] = factors.astype(object)
    answers = regions.spaces.answers.astype(np.intp)[np.nonzero(measured)[0]]
    _, apart = regions.coordinates.distances(regions.tables, "l2")
    twice = apart.astype(int).astype(object)  # 2 or 0

    def image(x: Integers) -> Integers:
        tables = []
        for table, nodes, row in zip(regions.tables, regions.measured, absolute, strict=True):
            counts = table_sums(tree, regions.sizes, table, x)[tree.place_of_node[nodes]]
            tables.append(scaled(counts, row[nodes]).reshape(-1, *x.shape[1:]))
        return np.concatenate(tables)

    lengths = _lengths(
        absolute,
        lambda values: tree.above(values.sum(axis=0)),
        lambda values: farthest_tables(tree, values, twice, regions.tops),
    )
    return Lattice(strategy, strategy, np.repeat(units, answers), image, lengths=lengths)


def ordered_tables_lattice(strategy: Strategy, regions: RegionTablesStrategy, bits: int) -> Lattice:
    """Coordinates of ordered attributes at regions, in whole numbers (`structures`)."""
    designs = {i: part.rows for i, part in regions.ordered.items()}
    own = whole_designs(regions, designs, regions.weights, regions.tables, bits)
    weights = whole_part(regions.of_nodes, own.precision, own.heaviest)

    def image(x: Integers) -> Integers:
        tables = []
        for table, nodes, shift, row in zip(
            regions.tables, regions.measured, own.shifts, weights, strict=True
        ):
            counts = table_sums(regions.tree, regions.sizes, table, x)
            maps = [own.turns.get(i) for i in table]
            places = regions.tree.place_of_node[nodes]
            rows = along_axes(maps, [regions.sizes[i] for i in table], counts[places])
            moved = shifted(rows.astype(object) * row[nodes].astype(object)[:, None], shift)
            tables.append(moved.ravel())
        return np.concatenate(tables)

    return lattice_of_unit(strategy, image, own.unit)


def _lengths(
    absolute: Integers, above: Callable[[Any], Any], farthest: Callable[[Any], Any]
) -> dict[tuple[Neighbours, Noise], int]:
    """The exact sensitivities, from what a cell and two cells count."""
    lengths = {}
    for noise, values in ((Noise.LAPLACE, absolute), (Noise.GAUSSIAN, absolute**2)):
        lengths[Neighbours.ADD_REMOVE, noise] = int(above(values).max())
        lengths[Neighbours.REPLACE, noise] = int(farthest(values))
    return lengths
