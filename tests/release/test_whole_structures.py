"""Products, blocks and tables computed exactly and rounded once: whole numbers of any size."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from fast_sampler import no_noise
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.designs import DesignOptions, factorize, question, solve_tables
from pmldesign.mechanisms import integers, mechanism
from pmldesign.privacy import PML, ApproxDP, Neighbours, Noise, PureDP
from pmldesign.releases import exact_noise, lattice_of
from pmldesign.strategies import (
    BlockStrategy,
    ChainStrategy,
    ProductStrategy,
    Strategy,
    TablesStrategy,
)
from pmldesign.workloads import parse_workload


@given(st.data())
def test_products_of_any_size_are_those_of_whole_numbers(data):
    rows, inner, columns = (data.draw(st.integers(1, 4)) for _ in range(3))
    large = st.integers(-(2**60), 2**60)
    matrix = np.array(
        data.draw(
            st.lists(st.lists(large, min_size=inner, max_size=inner), min_size=rows, max_size=rows)
        ),
        dtype=np.int64,
    )
    larger = st.integers(-(2**150), 2**150)
    x = np.array(
        data.draw(
            st.lists(
                st.lists(larger, min_size=columns, max_size=columns),
                min_size=inner,
                max_size=inner,
            )
        ),
        dtype=object,
    )
    expected = [
        [sum(int(a) * int(b) for a, b in zip(row, column, strict=True)) for column in x.T]
        for row in matrix
    ]
    assert integers.times(matrix, x).tolist() == expected


def test_nothing_times_numbers_beyond_64_bits_is_nothing():
    zeros, x = np.zeros((2, 1), dtype=np.int64), np.array([[2**63, -(2**100)]], dtype=object)
    assert integers.times(zeros, x).tolist() == [[0, 0], [0, 0]]


@given(st.lists(st.integers(-(2**80), 2**80), min_size=1, max_size=5), st.integers(1, 90))
def test_shifted_numbers_are_the_nearest(values, bits):
    found = integers.shifted(np.array(values, dtype=object), bits)
    assert all(
        abs(y - Fraction(x, 2**bits)) <= Fraction(1, 2) for x, y in zip(values, found, strict=True)
    )


def structures():
    generator = np.random.default_rng(2)
    factors = [Strategy("f", generator.normal(size=(n, n))) for n in (3, 4)]
    queries = parse_workload("prefix:3*prefix:4")
    yield ProductStrategy("product", factors), queries
    yield ProductStrategy("weighted", factors, weights=generator.uniform(0.5, 2, 12)), queries
    turn = np.linalg.qr(generator.normal(size=(4, 4)))[0]
    blocks = [Strategy("b", generator.normal(size=(3, 3))) for _ in range(2)]
    yield BlockStrategy("blocks", 0, [turn], [0, 1, 0, 1], blocks), queries


def tables():
    queries = parse_workload("marginals:prefix4,3,prefix3,1,upto=2")
    found = solve_tables(queries, question(queries), 2.0, DesignOptions(rel_gap=1e-2))
    assert isinstance(found.strategy, TablesStrategy)
    yield found.strategy, queries


CASES = [*structures(), *tables()]
IDS = ["product", "weighted", "blocks", "tables"]


@pytest.fixture(autouse=True)
def never_written_out(monkeypatch):
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 0)


@pytest.mark.parametrize(("strategy", "queries"), CASES, ids=IDS)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_neighbours_are_no_farther_apart_than_the_sensitivity(strategy, queries, neighbours):
    made = mechanism(strategy, queries, guarantee=ApproxDP(1.0, 1e-6, neighbours))
    lattice = lattice_of(made.strategy, made.workload, 12)  # coarse, so that rounding counts
    cells, generator = queries.shape[1], np.random.default_rng(3)
    for data_size in (2, 10, 10**3, 10**6, 10**12):
        x = generator.integers(1, data_size, cells)
        image = lattice.image(x)
        moved = [x - row for row in np.eye(cells, dtype=np.int64)]
        pairs = [(image, lattice.image(y)) for y in moved]
        if neighbours == "replace":
            pairs = list(itertools.combinations([lattice.image(y) for y in moved], 2))
        for noise in (Noise.GAUSSIAN, Noise.LAPLACE):
            power = 1 if noise is Noise.LAPLACE else 2
            value, _ = lattice.sensitivity(made.neighbours, noise)
            assert max((abs(a - b) ** power).sum() for a, b in pairs) <= value


@pytest.mark.parametrize(("strategy", "queries"), CASES, ids=IDS)
@pytest.mark.parametrize("guarantee", [PureDP(1.0), ApproxDP(1, 1e-6, "replace"), PML(0.5, 0.02)])
def test_answers_and_errors_are_those_of_the_design(strategy, queries, guarantee):
    made = mechanism(strategy, queries, guarantee=guarantee)
    noisy = exact_noise(made)
    assert 0 < noisy.lattice.bias < 1e-11
    assert noisy.bits == 48
    for most in (3, 10**3, 10**6, 10**12):
        x = np.random.default_rng(4).integers(0, most, queries.shape[1])
        measured = noisy.measure(x, sampler=no_noise)
        answers = noisy.lattice.estimator.answer(made.workload, measured)
        if guarantee.neighbours == "replace":
            answers = answers + queries.matvec(np.full(len(x), x.sum() / len(x)))
        truth = queries.matvec(x.astype(float))
        assert np.allclose(answers, truth, rtol=1e-9, atol=1e-11 * (1 + x.sum()))
    ratio = noisy.noise_scale * noisy.factorization.unit_error(made.noise, 2) / made.error(2)
    assert 1 - 1e-6 < ratio <= 1 + 1e-6


def test_unions_too_large_for_a_matrix_are_released():
    queries = parse_workload("prefix:150*histogram:200+histogram:150*total:200")
    made = mechanism(
        factorize(queries, rel_gap=0.1).strategy,
        queries,
        guarantee=ApproxDP(1, 1e-6),
        noise="gaussian",
    )
    assert isinstance(made.strategy, BlockStrategy)
    noisy = exact_noise(made)
    x = np.random.default_rng(4).integers(0, 10**6, queries.shape[1])
    answers = noisy.lattice.estimator.answer(queries, noisy.measure(x, sampler=no_noise))
    assert np.allclose(answers, queries.matvec(x.astype(float)), rtol=1e-9, atol=1e-3)


@pytest.mark.parametrize("text", ["prefix:30", "decay:30,0.8"])
@pytest.mark.parametrize("neighbours", [*Neighbours])
def test_long_running_sums_are_measured_by_their_recurrence(text, neighbours, monkeypatch):
    """The map to the lattice rounds, so that differences depend on where they start."""
    monkeypatch.undo()  # beyond WRITTEN_CELLS distances are bounds
    strategy = factorize(text, rel_gap=1e-2, buffers=3).strategy
    assert isinstance(strategy, ChainStrategy)
    lattice, generator = lattice_of(strategy, parse_workload(text), 16), np.random.default_rng(6)
    for x in generator.integers(0, 1000, (3, strategy.cells)):
        units = np.eye(strategy.cells, dtype=np.int64)
        images = [lattice.image(x + unit) for unit in units]
        differences = [image - lattice.image(x) for image in images]
        if neighbours is Neighbours.REPLACE:
            differences = [a - b for a in images for b in images]
        for noise in (Noise.GAUSSIAN, Noise.LAPLACE):
            power = 1 if noise is Noise.LAPLACE else 2
            exact = max((abs(row) ** power).sum() for row in differences)
            assert exact <= lattice.sensitivity(neighbours, noise)[0] <= exact * 1.05
        measured = lattice.image(x).astype(float) * lattice.units
        assert np.allclose(measured, strategy.matrix @ x, atol=lattice.bias)
