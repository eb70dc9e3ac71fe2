"""Strategies with structure as arrays of a file, and back.

    product     `factor_0`, `factor_1` ... and, if they are not all 1, `weights`:
                R = diag(weights)^(1/2) (factor_0 x factor_1 x ...); dual weights too may be those
                of the factors, `dual_u_0`, `dual_w_0` ...
                given a public table also `counted`, which attributes it counts, `sizes` of these,
                and `place`, the number of the factor for the open ones
    blocks      `free` (the number of the attribute that they are about), `block_0`, `block_1` ...,
                `basis_0`, `basis_1` ... (orthonormal, of the other attributes in their order) and
                `combinations` (the block of every combination of their columns, -1 for none)
    stream      `poles` and `weights_of_poles` of the nodes, `u` and `w`, and the running sums that
                they are for: `rates`, `query_weights`, `step_weights`, a single number for equal
                ones; whatever its size
    epochs      for people who take part in fixed epochs: as stream, with `epochs` (n, k and b) and
                `epoch_weights`, one matrix for each class of steps, instead of `u` and `w`
    Toeplitz    `coefficients` r of lower triangular strategies of more steps than a matrix is
                written for, and the running sums that they are for
    recurrence  `diagonal`, `gains` and `decays`, the numbers of C, and the running sums as above
    all ranges  as stream, without `u` and the running sums
    regions     `parents` of the nodes of a tree, -1 for the root, `sizes` of the attributes,
                `tables` (sets of attributes; the empty one counts) and `node_weights` for each of
                these, 0 if a node is not measured; `ordered` and `coordinates_0`, ... as below
    table matrices  `sizes` of the attributes, `tables` (sets) and `rows_0`, `rows_1`, ..., the
                matrix of each; `centred`, whether the total is public
    rows        `diagonal` and `rows`: R = [diag(diagonal); rows]
    coordinates `sizes` of the attributes, `residuals` (sets of attributes) and `precisions`;
                `ordered` (attributes with coordinates of their own) and `coordinates_0`, ... (Y of
                each) if there are any; given public tables `counted`, a row for each of several
    weighted tables `sizes` of the attributes, `tables` (sets) and `weights`; `designed` (the
                attributes with a design) and `design_0`, ... (D of each) if there are any

The header names the form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmldesign.files.arrays import Archive, whole_numbers
from pmldesign.files.parts import (
    NODES,
    SUMS,
    Arrays,
    Part,
    coordinates_arrays,
    listed,
    matrices,
    plain,
    read_coordinates,
    sets,
    shortened,
    whole,
)
from pmldesign.strategies import Strategy
from pmldesign.strategies.baselines.toeplitz import ToeplitzStrategy, from_coefficients
from pmldesign.strategies.blocks import BlockStrategy
from pmldesign.strategies.identity_and_rows import IdentityAndRows
from pmldesign.strategies.kronecker import ProductStrategy
from pmldesign.strategies.nested.regions import RegionsStrategy, from_nodes
from pmldesign.strategies.nested.tables import RegionTablesStrategy, from_table_nodes
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.participation.schema import Participation
from pmldesign.strategies.recurrent import FactorStrategy
from pmldesign.strategies.streams import AllRangesStrategy, StreamStrategy
from pmldesign.strategies.tables.matrices import TableMatricesStrategy
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.strategies.tables.weighted import WeightedTablesStrategy
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign.workloads.terms.attributes import attribute_sizes
from pmldesign_solvers.streams.chain import RunningSums
from pmldesign_solvers.streams.nodes import Nodes
from pmldesign_solvers.tables.free_vector import Measured


@dataclass(frozen=True, slots=True)
class Form:
    """How strategies of a class are written.

    Attributes:
        name: in the header of a file.
        kind: the class.
        parts: the arguments of the class after the name of the strategy.
        make: called with the name and the arguments instead of the class.
        always: whether small ones are written so as well, not as R and L.
    """

    name: str
    kind: type[Strategy]
    parts: tuple[Part, ...]
    make: Callable[..., Strategy] | None = None
    always: bool = True

    def write(self, strategy: Strategy) -> Arrays:
        """The arrays of a strategy of this form."""
        return {key: array for part in self.parts for key, array in part.write(strategy).items()}

    def read(self, name: str, arrays: Archive) -> Strategy:
        """The strategy that arrays stand for."""
        return (self.make or self.kind)(name, *(part.read(name, arrays) for part in self.parts))


def form_for(strategy: Strategy, *, large: bool) -> Form | None:
    """The form in which a strategy is written; None for one that is written as matrices.

    Args:
        strategy: any.
        large: whether its matrices are too large to be written.
    """
    form = next((form for form in FORMS if form.kind is type(strategy)), None)
    return form if form and (form.always or large or strategy.public) else None


def read_structure(name: str, arrays: Archive, form: Any) -> Strategy:
    """The strategy that arrays of a file stand for.

    Args:
        name: of the strategy.
        arrays: of the file.
        form: the name of their form.

    Raises:
        InvalidInputError: arrays that do not fit together.
        ValueError: a missing array, or an unknown form.
    """
    for known in FORMS:
        if form == known.name:
            return known.read(name, arrays)
    raise ValueError(f"there is no form {form!r:.40}")


def _epochs(
    name: str, sums: RunningSums, epochs: list[int], weights: Any, nodes: Nodes
) -> EpochStrategy:
    _, times, apart = epochs
    return EpochStrategy(name, sums, Participation(times, apart, fixed=True), weights, nodes)


def _blocks(name: str, free: list[int], *others: Any) -> BlockStrategy:
    (index,) = free
    return BlockStrategy(name, index, *others)


def _regions(
    name: str, parents: Any, sizes: list[int], tables: Any, node_weights: Any, ordered: Any
) -> RegionsStrategy | RegionTablesStrategy:
    if sizes:
        return from_table_nodes(name, parents, sizes, tables, node_weights, ordered)
    if tables != [()]:
        raise ValueError("tables without attributes are counts")
    return from_nodes(name, parents, node_weights.reshape(-1))


def _product(
    name: str, factors: Sequence[Strategy], weights: Any, table: Public, place: Any
) -> ProductStrategy:
    strategy = ProductStrategy(name, factors, weights=weights, public=table)
    if table:
        _check_place(table, strategy.sizes, place)
    return strategy


def _check_place(table: Public, cells: Sequence[int], place: Any) -> None:
    """Refuse factors that are not those of attributes, the open ones together."""
    sizes, together = table.sizes, table.open
    if together is None or whole_numbers("place", place) != [together.start]:
        raise ValueError("place is no factor, or counted and sizes do not fit")
    merged = math.prod(sizes[together])
    if cells != (*sizes[: together.start], merged, *sizes[together.stop :]):
        raise ValueError("the factors have other sizes than the attributes")


def _toeplitz(name: str, sums: RunningSums, coefficients: Any) -> ToeplitzStrategy:
    rate = float(sums.rates[0])
    same = np.array_equal(sums.rates, np.full(coefficients.size - 1, rate))
    if not same or (sums.query_squares != 1).any() or (sums.step_squares != 1).any():
        raise ValueError("coefficients are for running sums of one rate")
    return from_coefficients(name, coefficients, rate)


def _coordinates(
    name: str,
    sizes: list[int],
    residuals: Any,
    precisions: Any,
    ordered: Mapping[int, Measured],
    table: Public,
) -> TablesStrategy:
    if ordered and () not in residuals:
        table = table or RECORDS
    strategy = TablesStrategy(name, sizes, residuals, precisions, ordered, public=table)
    if any(map(table.tells, strategy.residuals)):
        raise ValueError("a residual is one of a public table")
    return strategy


def table_arrays(public: Public) -> Arrays:
    """The invariants of a strategy, if these are tables."""
    if public.kind != "tables":
        return {}
    counted = [[i in table for i in range(len(public.sizes))] for table in public.tables]
    one = not public.several
    return {
        "counted": np.array(counted[0] if one else counted, np.int64),
        "sizes": np.array(public.sizes, np.int64),
    }


def read_tables(name: str, arrays: Archive) -> Public:
    """The tables that are public, NOTHING without any; ValueError if the arrays are not tables."""
    if "counted" not in arrays:
        return NOTHING
    counted, sizes = np.atleast_2d(arrays["counted"]), whole_numbers("sizes", arrays["sizes"])
    entries = set(whole_numbers("counted", counted))
    tables = tuple(frozenset(np.flatnonzero(row).tolist()) for row in counted)
    apart = not any(other >= S for S in tables for other in tables if S is not other)
    if counted.shape[1:] != (len(sizes),) or not entries <= {0, 1} or not apart:
        raise ValueError("counted and sizes do not fit")
    return Public("tables", name, sizes=tuple(sizes), tables=tables)


def _design_arrays(strategy: WeightedTablesStrategy) -> Arrays:
    designed = sorted(strategy.designs)
    if not designed:
        return {}
    designs = {f"design_{k}": strategy.designs[i] for k, i in enumerate(designed)}
    return {"designed": np.array(designed, dtype=np.int64), **designs}


def _read_designs(_name: str, arrays: Archive) -> dict[int, Any]:
    if "designed" not in arrays:
        return {}
    designed = whole_numbers("designed", arrays["designed"])
    return {i: arrays[f"design_{k}"] for k, i in enumerate(designed)}


def _ordered_arrays(strategy: RegionTablesStrategy | TablesStrategy) -> Arrays:
    return coordinates_arrays(strategy.ordered) if strategy.ordered else {}


def _read_ordered(name: str, arrays: Archive) -> dict[int, Any]:
    if "ordered" not in arrays:
        return {}
    return read_coordinates(name, arrays, attribute_sizes(whole_numbers("sizes", arrays["sizes"])))


def _matrices_of_tables(
    name: str, sizes: list[int], tables: Any, matrices: Sequence[Any], centred: list[int]
) -> TableMatricesStrategy:
    public = RECORDS if any(centred) else NOTHING
    return TableMatricesStrategy(name, sizes, tables, matrices, public=public)


SIZES = whole("sizes")
PRODUCT_WEIGHTS = Part(
    lambda strategy: {} if strategy.weights is None else {"weights": strategy.weights},
    lambda _, arrays: arrays.optional("weights"),
)
TABLE = Part(lambda strategy: table_arrays(strategy.public), read_tables)
"""The invariants of the strategy, if these are tables."""
PLACE = Part(
    lambda strategy: {"place": np.array([strategy.place])} if strategy.public else {},
    lambda _, arrays: arrays.optional("place"),
)
STREAM_U = Part(
    lambda strategy: {"u": shortened(strategy.u)},
    lambda _, arrays: np.broadcast_to(arrays["u"], len(arrays["w"])).astype(float),
)
CENTRED = Part(
    lambda strategy: {"centred": np.array([int(bool(strategy.public))])},
    lambda _, arrays: whole_numbers("centred", arrays["centred"]),
)
"""Whether the number of records is public."""
COUNTED = Part(
    lambda strategy: {
        "sizes": np.zeros(0, dtype=np.int64),
        "tables": np.full((1, 1), -1),
        "node_weights": strategy.node_weights[None],
    },
    lambda _, arrays: arrays["node_weights"],
)
"""Counts at regions: the table of no attributes."""
ORDERED = Part(_ordered_arrays, _read_ordered)
"""What is measured of ordered attributes."""
FORMS = [
    Form(
        "epochs",
        EpochStrategy,
        (
            SUMS,
            whole("epochs", "cells", "designed_for.times", "designed_for.apart"),
            plain("epoch_weights", "weights"),
            NODES,
        ),
        _epochs,
    ),
    Form(
        "toeplitz",
        ToeplitzStrategy,
        (SUMS, plain("coefficients")),
        _toeplitz,
        always=False,
    ),
    Form("stream", StreamStrategy, (SUMS, STREAM_U, plain("w"), NODES)),
    Form(
        "recurrence",
        FactorStrategy,
        (SUMS, plain("diagonal"), plain("gains"), plain("decays")),
    ),
    Form("all ranges", AllRangesStrategy, (plain("w"), NODES)),
    Form(
        "product",
        ProductStrategy,
        (matrices("factor", "factors"), PRODUCT_WEIGHTS, TABLE, PLACE),
        _product,
        always=False,
    ),
    Form(
        "regions",
        RegionTablesStrategy,
        (
            whole("parents", "tree.parents"),
            SIZES,
            sets("tables"),
            plain("node_weights"),
            ORDERED,
        ),
        _regions,
    ),
    Form("regions", RegionsStrategy, (whole("parents", "tree.parents"), COUNTED)),
    Form("rows", IdentityAndRows, (plain("diagonal"), plain("rows")), always=False),
    Form(
        "blocks",
        BlockStrategy,
        (
            whole("free", "index"),
            listed("basis", "bases"),
            plain("combinations"),
            matrices("block", "blocks"),
        ),
        _blocks,
        always=False,
    ),
    Form(
        "table matrices",
        TableMatricesStrategy,
        (SIZES, sets("tables", "subsets"), listed("rows", "matrices"), CENTRED),
        _matrices_of_tables,
    ),
    Form(
        "weighted tables",
        WeightedTablesStrategy,
        (
            SIZES,
            sets("tables", "subsets"),
            plain("weights"),
            Part(_design_arrays, _read_designs),
        ),
    ),
    Form(
        "coordinates",
        TablesStrategy,
        (SIZES, sets("residuals"), plain("precisions"), ORDERED, TABLE),
        _coordinates,
    ),
]
"""A new form gets its row here."""
