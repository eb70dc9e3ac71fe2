"""Sensitivities, distances and scales of every strategy, against 60 digits (`exact_matrices`).

None of them may be below the exact value by a single digit, which no tolerance would show.
"""

import math

import mpmath
import numpy as np
import pytest
from exact_matrices import EXACT_ROWS, distances, exact_rows, exact_sensitivity
from scipy import linalg

from pmldesign.designs import DesignOptions, factorize, question, solve_tables
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.privacy import PML, ApproxPML, Neighbours, PureDP, calibrate
from pmldesign.strategies import (
    AllRangesStrategy,
    BesideStrategy,
    BesideTables,
    BinaryQueries,
    BlockStrategy,
    ChainStrategy,
    CountsStrategy,
    FactorStrategy,
    IdentityAndRows,
    ParticipationStrategy,
    ProductStrategy,
    RecurrentStrategy,
    RegionsStrategy,
    RegionTablesStrategy,
    RunningQueries,
    Strategy,
    StreamStrategy,
    StructuredStrategy,
    TableMatricesStrategy,
    TablesStrategy,
    ToeplitzStrategy,
    WeightedTablesStrategy,
    WrittenQueries,
    haar_wavelet,
    identity,
    tree,
    union_queries,
    workload_strategy,
)
from pmldesign.workloads import RECORDS, RunningWorkload, as_workload
from pmldesign_solvers.streams import Nodes, RunningSums
from pmldesign_solvers.tables import Measured
from pmldesign_solvers.trees import Tree

EXACT = mpmath.mpf(10) ** -50
"""Relative rounding of the exact values themselves."""
BOUNDED = {"ordered tables", "ordered tables, public", "long coordinates", "short coordinates"}
"""In l2 a bound, which is the exact value for the columns of a design, all of the same length."""
SHARED = {ChainStrategy, CountsStrategy, RecurrentStrategy, StructuredStrategy, WrittenQueries}
"""Bases of others, of which there are no instances."""
OTHER_NEIGHBOURS = {BesideTables, ParticipationStrategy}
"""For replace alone, with the distances of another one; over patterns of steps. Both are enumerated
where they are tested."""


def weights(rng, count):
    return 10.0 ** rng.uniform(-6, 6, size=count)


def matrix(rng):
    values = rng.standard_normal((4, 5)) * weights(rng, (4, 1))
    values[:, 1] = values[:, 0]
    return Strategy("matrix", values)


def product(rng):
    parts = [matrix(rng), Strategy("b", rng.standard_normal((2, 2)) * weights(rng, 2))]
    return ProductStrategy("product", parts)


def weighted_product(rng):
    parts = [Strategy(str(n), rng.standard_normal((n, n))) for n in (3, 2)]
    return ProductStrategy("product", parts, weights=weights(rng, 6))


def of_blocks(rng):
    basis = linalg.qr(rng.standard_normal((3, 3)))[0]
    parts = [Strategy(str(k), rng.standard_normal((2, 2)) * weights(rng, (2, 1))) for k in (0, 1)]
    return BlockStrategy("blocks", 1, [basis], [0, 1, 0], parts)


def two_valued_blocks(rng):
    basis = np.column_stack([np.full(2, 0.5**0.5), [0.5**0.5, -(0.5**0.5)]])
    parts = [Strategy(str(k), rng.standard_normal((2, 2)) * weights(rng, (2, 1))) for k in (0, 1)]
    return BlockStrategy("blocks", 0, [basis], [0, 1], parts)


def residuals(rng):
    sets = [(), (0,), (1,), (0, 1), (0, 3)]
    return TablesStrategy("residuals", (3, 2, 1, 2), sets, weights(rng, len(sets)))


def weighted_tables(rng):
    sets = [(), (2,), (0, 2), (0, 1), (1,)]
    return WeightedTablesStrategy("tables", (3, 2, 1), sets, weights(rng, len(sets)))


def table_matrices(rng):
    sizes, sets = (3, 2, 2), [(0, 1), (2,), (1, 2)]
    rows = [5, 2, 4]
    matrices = [
        rng.standard_normal((count, math.prod(sizes[i] for i in s))) * weights(rng, (count, 1))
        for s, count in zip(sets, rows, strict=True)
    ]
    return TableMatricesStrategy("matrices", sizes, sets, matrices)


def coordinates(rng, n, *, size=1.0):
    rows = rng.standard_normal((n - 1, n))
    rows *= size / np.sqrt((rows**2).sum(axis=0).max())
    return Measured(rows, np.linalg.inv(np.vstack([np.ones(n), rows])))


def ordered_tables(rng, *, size=1.0):
    ordered = {1: coordinates(rng, 3, size=size), 2: coordinates(rng, 4, size=size)}
    sets = [(), (0,), (1,), (1, 2), (0, 1, 2)]
    return TablesStrategy("ordered", (2, 3, 4), sets, weights(rng, len(sets)), ordered)


def designed_tables(rng):
    p = (2.0, math.inf)[int(rng.integers(2))]
    return solved_tables(p).strategy


def solved_tables(p):
    workload = as_workload("marginals:prefix3,2,prefix4,upto=2")
    options = DesignOptions(rel_gap=1e-3)
    return solve_tables(workload, question(workload), p, options)


def stream(rng):
    n, count = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    sums = RunningSums(rng.uniform(0.1, 1.0, n - 1), np.ones(n), np.ones(n))
    nodes = Nodes(np.sort(weights(rng, count)) ** 0.3, weights(rng, count))
    u, w = rng.uniform(0.5, 2, n), rng.uniform(0.5, 2, n)
    return StreamStrategy("stream", sums, u, w, nodes)


def recurrence(rng):
    n, count = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    sums = RunningSums(rng.uniform(0.1, 1.0, n - 1), np.ones(n), np.ones(n))
    numbers = weights(rng, n), weights(rng, (n, count)), rng.uniform(0, 1, (n, count))
    return FactorStrategy("recurrence", sums, *numbers)


def long_ranges(rng):
    n, count = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    nodes = Nodes(np.sort(weights(rng, count)) ** 0.3, weights(rng, count))
    return AllRangesStrategy("ranges", rng.uniform(0.5, 2, n), nodes)


def epochs(rng):
    steps = int(rng.integers(5, 13))
    return factorize(f"prefix:{steps}", participation="3,every=4").strategy.whole


def weighted_products(rng):
    designs = {0: rng.standard_normal((4, 3)) * weights(rng, (4, 1)) ** 0.3, 2: np.tri(2)}
    sets = [(), (0,), (1, 2), (0, 1), (2,), (0, 2)]
    sizes = (3, 2, 2)
    return WeightedTablesStrategy("products", sizes, sets, weights(rng, len(sets)), designs)


def toeplitz_strategy(rng):
    rate = float(rng.uniform(0.2, 1))
    r = rate ** np.arange(7.0)
    return ToeplitzStrategy("toeplitz", r, np.eye(1, 7)[0], rate)


def with_rows(rng):
    n = 6
    diagonal = weights(rng, n)  # which must not vanish beside the rows
    rows = rng.standard_normal((2, n)) * diagonal * 10.0 ** rng.uniform(-6, 2, n)
    return IdentityAndRows("rows", diagonal, rows)


def queries(rng):
    return workload_strategy(as_workload(rng.standard_normal((7, 4)) * 1e3 + weights(rng, (7, 1))))


def regions(rng):
    tree = Tree([-1, 0, 0, 1, 1, 2, 2, 2, 3, 3])
    values = np.zeros(tree.places)
    values[tree.place_of_node] = weights(rng, tree.nodes)
    return RegionsStrategy("regions", tree, values)


def region_tables(rng):
    tree = Tree([-1, 0, 0, 1, 1, 2, 2])
    tables = [(), (0,), (0, 1)]
    values = np.zeros((3, tree.places))
    values[:, tree.place_of_node] = weights(rng, 3 * tree.nodes).reshape(3, -1)
    return RegionTablesStrategy("tables", tree, (2, 3), tables, values)


def counts(rng):
    texts = "total:4*prefix:2+window:4,2*total:2", "window:6,3", "prefix:5"
    return BinaryQueries(as_workload(texts[rng.integers(3)]))


def union(rng):
    texts = "total:2*prefix:3+histogram:2*window:3,2", "marginals:prefix3,2,ways=1"
    return union_queries(as_workload(texts[rng.integers(2)]))


def running(rng):
    n = int(rng.integers(1, 7))
    sums = np.exp(rng.normal(0, 0.2, n - 1)), *np.exp(rng.normal(size=(2, n)))
    return RunningQueries(RunningWorkload(*sums))


MAKERS = {
    "matrix": matrix,
    "product": product,
    "weighted product": weighted_product,
    "blocks": of_blocks,
    "two-valued blocks": two_valued_blocks,
    "residuals": residuals,
    "residuals, public": lambda rng: residuals(rng).beside(RECORDS),
    "weighted tables": weighted_tables,
    "weighted tables, public": lambda rng: weighted_tables(rng).beside(RECORDS),
    "weighted products": weighted_products,
    "weighted products, public": lambda rng: weighted_products(rng).beside(RECORDS),
    "matrices of tables": table_matrices,
    "matrices of tables, public": lambda rng: table_matrices(rng).beside(RECORDS),
    "ordered tables": ordered_tables,
    "ordered tables, public": lambda rng: ordered_tables(rng).beside(RECORDS),
    "designed tables": designed_tables,
    "long coordinates": lambda rng: ordered_tables(rng, size=30.0),
    "short coordinates": lambda rng: ordered_tables(rng, size=0.1),
    "region tables": region_tables,
    "region tables, public": lambda rng: region_tables(rng).beside(RECORDS),
    "regions": regions,
    "regions, public": lambda rng: regions(rng).beside(RECORDS),
    "stream": stream,
    "epochs": epochs,
    "recurrence": recurrence,
    "long ranges": long_ranges,
    "toeplitz": toeplitz_strategy,
    "identity and rows": with_rows,
    "queries": queries,
    "ranges": lambda rng: workload_strategy(as_workload(f"all-range:{int(rng.integers(2, 6))}")),
    "many counts": counts,
    "many counts, public": lambda rng: counts(rng).beside(RECORDS),
    "counts of products": union,
    "counts of products, public": lambda rng: union(rng).beside(RECORDS),
    "running sums": running,
    "running sums, public": lambda rng: running(rng).beside(RECORDS),
    "tree": lambda rng: tree(int(rng.integers(2, 8)), branching=int(rng.integers(2, 4))),
    "haar": lambda rng: haar_wavelet(int(rng.integers(2, 8))),
    "identity": lambda rng: identity(int(rng.integers(1, 5))),
    "queries, public": lambda rng: queries(rng).beside(RECORDS),
    "product, public": lambda rng: BesideStrategy(product(rng)),
    "blocks, public": lambda rng: BesideStrategy(of_blocks(rng)),
    "identity and rows, public": lambda rng: BesideStrategy(with_rows(rng)),
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("text", ["total:4*prefix:2+window:4,2*total:2", "prefix:1", "total:3"])
def test_counts_of_too_many_cells_for_all_pairs_have_their_largest_distance(
    norm, text, monkeypatch
):
    monkeypatch.setattr("pmldesign.strategies.baselines.written_queries.MAX_ENTRIES", 0)
    monkeypatch.setattr("pmldesign.workloads.base.MAX_ENTRIES", 63)  # pairs of 8 cells
    monkeypatch.setattr("pmldesign.privacy.neighbours.WRITTEN_CELLS", 0)
    workload = as_workload(text)
    A, power = workload.to_dense(), 1 if norm == "l1" else 2
    squares = (np.abs(A[:, :, None] - A[:, None]) ** power).sum(axis=0)
    value = BinaryQueries(workload).sensitivity_under("replace", norm)
    assert value == pytest.approx(squares.max() ** (1 / power), rel=1e-15)
    assert value**power >= squares.max()


def subclasses(cls):
    return {cls}.union(*(subclasses(child) for child in cls.__subclasses__()))


def test_every_strategy_has_an_instance_here():
    rng = np.random.default_rng(0)
    built = {type(make(rng)) for make in MAKERS.values()}
    ours = {
        cls for cls in subclasses(Strategy) if cls.__module__.startswith("pmldesign.strategies")
    }
    assert built == ours - OTHER_NEIGHBOURS - SHARED
    assert built == set(EXACT_ROWS)


@pytest.mark.parametrize(("seed", "large"), [(0, False), (1, True)], ids=["written", "large"])
@pytest.mark.parametrize("kind", MAKERS)
def test_sensitivities_are_never_below_the_exact_ones(kind, large, seed, monkeypatch):
    if large:  # as if the matrix were too large to be written out
        monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 0)
    strategy = MAKERS[kind](np.random.default_rng(seed))
    rows = exact_rows(strategy)
    for norm in ("l1", "l2"):
        apart = distances(rows, norm)
        for neighbours in ("add-remove", "replace"):
            value = strategy.sensitivity_under(neighbours, norm)
            exact = exact_sensitivity(rows, neighbours, norm, apart)
            case = (norm, neighbours, float(value / exact - 1) if exact else value)
            assert value >= exact * (1 - EXACT), case
            if not large and kind not in BOUNDED:
                assert value <= exact * (1 + 1e-9), case
            if norm == "l1":
                scale = calibrate(strategy, PureDP(0.3, neighbours), noise="laplace").scale
                assert exact * (1 - EXACT) <= mpmath.mpf(scale) * mpmath.mpf(0.3)
        _check_profile(strategy, apart, norm)


KINDS = [kind for kind in MAKERS if not kind.startswith(("long", "short"))]


@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_is_that_of_the_matrix(kind):
    """Under PML as under DP; a structured strategy may need a hair more, never less."""
    strategy = MAKERS[kind](np.random.default_rng(5))
    plain = Strategy("plain", np.array(exact_rows(strategy).astype(float)))
    if plain.cells < 2:
        return
    alpha = 0.5 / plain.cells
    pairs = ((PML(0.5, alpha), "laplace"), (ApproxPML(0.5, 1e-3, alpha), "gaussian"))
    for guarantee, noise in pairs:
        scale = calibrate(strategy, guarantee, noise=noise).scale
        exact = calibrate(plain, guarantee, noise=noise).scale
        assert exact * (1 - 3e-6) <= scale <= exact * (1 + 3e-6)


REGULAR = ["designed tables", "ordered tables", "short coordinates", "stream", "toeplitz", "tree"]


@pytest.mark.parametrize("kind", REGULAR)
def test_variances_of_any_queries_are_those_of_the_matrix(kind):
    strategy = MAKERS[kind](np.random.default_rng(0))
    rows = np.array(exact_rows(strategy).astype(float))
    sizes = np.abs(rows).max(axis=1, keepdims=True)
    asked = as_workload(np.random.default_rng(1).standard_normal((3, len(rows))) @ (rows / sizes))
    expected = ((asked.to_dense() @ np.linalg.pinv(rows, rcond=1e-12)) ** 2).sum(axis=1)
    np.testing.assert_allclose(strategy.variances(asked), expected, rtol=1e-9)


def test_coordinates_that_do_not_fit_are_refused():
    given = ordered_tables(np.random.default_rng(0))
    good = given.ordered[1]
    wrong = [{9: good}, {0: good}, {1: Measured(good.rows[1:], good.inverse)}]
    wrong += [{1: Measured(good.rows * np.nan, good.inverse)}]
    for ordered in wrong:
        with pytest.raises(InvalidInputError, match="do not fit"):
            TablesStrategy("own", given.sizes, given.residuals, given.precisions, ordered)


def test_coordinates_of_a_file_are_measured_not_believed(tmp_path):
    altered = tmp_path / "altered.npz"
    write_strategy(altered, solved_tables(2.0))
    with np.load(altered) as file:
        arrays = dict(file)
    arrays["coordinates_0"] = 10 * arrays["coordinates_0"]
    np.savez(altered, **arrays)
    rows = exact_rows(read_strategy(altered))
    for norm in ("l1", "l2"):
        for relation in Neighbours:
            value = read_strategy(altered).sensitivity_under(relation, norm)
            exact = exact_sensitivity(rows, relation, norm, distances(rows, norm))
            assert value >= exact * (1 - EXACT)
    arrays["precisions"] = np.append(arrays["precisions"], 1.0)
    np.savez(altered, **arrays)
    with pytest.raises(InvalidInputError, match="one weight for each"):
        read_strategy(altered)


def _check_profile(strategy, apart, norm):
    """From every column, the distances by size are at most those of the profile."""
    profile = strategy.distance_profile(norm)
    if profile is None:
        return
    listed = [0.0] * int(profile.copies)
    for value, count in sorted(zip(profile.distances, profile.counts, strict=True)):
        listed += [value] * int(count * profile.copies)
    for row in apart:
        for bound, exact in zip(listed, sorted(row), strict=True):
            assert bound >= exact * (1 - EXACT) - EXACT * max(row)
