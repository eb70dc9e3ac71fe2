"""Several participations: every pattern and every sign, against what strategies say of them."""

from itertools import combinations, product

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from hypothesis import given
from hypothesis import strategies as st

import pmldesign as pml
from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.privacy import Neighbours
from pmldesign.strategies import (
    IdentityAndRows,
    Participation,
    ParticipationStrategy,
    Strategy,
    ToeplitzStrategy,
    as_participation,
    baseline,
    with_participation,
)
from pmldesign.strategies.participation import distances
from pmldesign.workloads import as_workload
from pmldesign_solvers.participation import largest_pattern


def patterns(n, schema):
    """All sets of steps that a person may take part in."""
    for size in range(1, schema.times + 1):
        for steps in combinations(range(n), size):
            gaps = np.diff(steps)
            if (gaps == schema.apart).all() if schema.fixed else (gaps >= schema.apart).all():
                yield list(steps)


def brute_force(matrix, schema, order=2):
    """Largest distance over all patterns and all contributions 1 and -1."""
    farthest = 0.0
    for steps in patterns(matrix.shape[1], schema):
        for signs in product([1.0], *[[1.0, -1.0]] * (len(steps) - 1)):
            farthest = max(farthest, np.linalg.norm(matrix[:, steps] @ signs, ord=order))
    return farthest


SCHEMAS = ["2,every=3", "3,every=4", "4,every=3", "3,every=1", "2,min-sep=3", "3,min-sep=2"]


@given(
    n=st.integers(2, 9),
    seed=st.integers(0, 2**32 - 1),
    text=st.sampled_from(SCHEMAS),
    signed=st.booleans(),
)
def test_sensitivity_is_that_of_the_worst_pattern(n, seed, text, signed):
    schema = as_participation(text)
    matrix = np.random.default_rng(seed).normal(size=(n, n))
    matrix = matrix if signed else np.abs(matrix)
    for norm, order in [("l2", 2), ("l1", 1)]:
        shown = distances.sensitivity(Strategy("random", matrix), schema, norm)
        exact = brute_force(matrix, schema, order)
        assert shown >= exact
        if not signed and (schema.fixed or schema.times == 2 or norm == "l1"):
            assert shown == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("text", SCHEMAS)
@pytest.mark.parametrize("name", ["square-root", "identity", "workload", "tree", "haar"])
def test_baselines_at_twelve_steps(name, text):
    schema, strategy = as_participation(text), baseline(name, as_workload("prefix:12"))
    shown = with_participation(strategy, schema).sensitivity
    exact = brute_force(strategy.matrix, schema)
    assert exact <= shown
    if schema.fixed and (strategy.matrix >= 0).all():
        assert shown == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("text", SCHEMAS)
def test_long_toeplitz_strategies_have_the_sensitivity_of_their_first_pattern(text):
    schema, n = as_participation(text), 12
    root = np.cumprod([1.0, *(1 - 0.5 / np.arange(1, n))])
    strategy = ToeplitzStrategy("root", root, root, 1.0)
    shown = distances.sensitivity(strategy, schema, "l2")
    assert shown == pytest.approx(brute_force(strategy.matrix, schema), rel=1e-12)
    assert shown >= brute_force(strategy.matrix, schema)


@pytest.mark.parametrize("text", ["3,every=5", "3,min-sep=4", "12,min-sep=1"])
def test_streams_too_long_for_a_matrix_are_bounded(text, monkeypatch):
    schema = as_participation(text)
    strategy = factorize("prefix:12", buffers=4, rel_gap=1e-2).strategy
    exact = brute_force(strategy.matrix, schema) if schema.times < 12 else None
    if exact is None:  # all steps at once
        exact = np.linalg.norm(strategy.matrix.sum(axis=1))
    close = distances.sensitivity(strategy, schema, "l2")
    monkeypatch.setattr("pmldesign.strategies.participation.distances.MATRIX_CELLS", 0)
    far = distances.sensitivity(strategy, schema, "l2")
    assert exact <= close <= far * (1 + 1e-12)
    assert far <= schema.reach(12) * strategy.sensitivity * (1 + 1e-12)


def test_orthogonal_columns_are_exact_for_min_sep():
    rng = np.random.default_rng(1)
    squares = rng.uniform(1, 2, 11)
    schema = Participation(3, 3)
    exact = max(squares[steps].sum() for steps in patterns(11, schema))
    assert largest_pattern(np.diag(squares), 3, 3) == pytest.approx(exact, rel=1e-15)


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        ("prefix:12", "3,every=4"),
        ("prefix:11", "3,every=4"),
        ("prefix:12", "2,every=4"),
        ("prefix:12", "3,min-sep=4"),
        ("decay:12,0.8", "4,every=3"),
    ],
)
def test_designs_are_private_and_not_worse_than_others(workload, text):
    schema = as_participation(text)
    design = factorize(workload, participation=text, rel_gap=1e-5)
    C = design.strategy.matrix
    exact = brute_force(C, schema)
    assert exact <= design.strategy.sensitivity <= 1 + 1e-12
    A = as_workload(workload).to_dense()
    reached = np.linalg.norm(A @ np.linalg.inv(C))
    assert design.certificate.lower <= reached <= design.certificate.upper * (1 + 1e-12)
    once = factorize(workload).strategy
    for name in ("square-root", "tree", "haar", "identity", "workload", once):
        strategy = baseline(name, as_workload(workload)) if isinstance(name, str) else name
        other = pml.mechanism(strategy, workload, participation=text)
        assert design.certificate.upper <= other.error(2) * (1 + 1e-9)
    guarantee = pml.ApproxDP(1.0, 1e-5)
    noisy = pml.mechanism(design, guarantee=guarantee, noise="gaussian")
    loss = gaussian_mechanism.get_epsilon_gaussian(noisy.scale / exact, 1e-5)
    assert loss <= 1.0 + 1e-9


def test_a_design_for_fixed_epochs_meets_its_bounds_and_its_variances_are_exact():
    design = factorize("prefix:64", participation="4,every=16")
    assert design.certificate.gap <= 1e-6
    design.require_optimal()
    L = np.tril(np.ones((64, 64))) @ np.linalg.inv(design.strategy.matrix)
    noisy = pml.mechanism(design)
    assert np.allclose(noisy.variances, (L**2).sum(axis=1), rtol=1e-9)
    assert noisy.error(2) == pytest.approx(np.linalg.norm(L), rel=1e-9)
    assert np.triu(design.strategy.matrix, 1).max() == 0


@pytest.mark.parametrize("text", ["4,every=3", "3,min-sep=3"])
def test_files_keep_the_participation(text, tmp_path):
    design = factorize("prefix:12", participation=text, rel_gap=0.05)
    write_strategy(tmp_path / "s.npz", design)
    read = read_strategy(tmp_path / "s.npz")
    assert isinstance(read, ParticipationStrategy)
    assert str(read.participation) == text
    assert np.allclose(read.matrix, design.strategy.matrix, rtol=1e-12)
    assert read.sensitivity == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(
    "text", ["0,every=3", "4,every=0", "4", "4,every", "4,sep=3", "", "-1,every=2"]
)
def test_odd_participations_are_refused(text):
    with pytest.raises(InvalidInputError, match=r"every=64|whole number of at least 1"):
        factorize("prefix:12", participation=text)


def test_what_does_not_go_with_participations_is_refused():
    design = factorize("prefix:12", participation="3,every=4", rel_gap=1e-4)
    for action in (
        lambda: factorize("prefix:12", participation="3,every=4", method="dual"),
        lambda: factorize("prefix:12", participation="3,every=4", neighbours="replace"),
        lambda: pml.mechanism(design.strategy, "prefix:12", guarantee=pml.PML(1, 0.01)),
        lambda: pml.mechanism(design.strategy, "prefix:12", neighbours="replace"),
        lambda: pml.calibrate(design.strategy, pml.ApproxPML(1, 1e-6, 0.01), noise="gaussian"),
        lambda: pml.optimize("prefix:12", participation="3,every=4", guarantee=pml.PML(1, 0.01)),
        lambda: design.strategy.sensitivity_under(Neighbours.REPLACE, "l2"),
    ):
        with pytest.raises(InvalidInputError, match="articipation"):
            action()


def test_a_release_is_refused():
    design = factorize("prefix:12", participation="3,every=4", rel_gap=1e-4)
    noisy = pml.mechanism(design, guarantee=pml.ApproxDP(1, 1e-6), noise="gaussian")
    with pytest.raises(InvalidInputError, match="one participation"):
        noisy.release(np.ones(12))


@pytest.fixture
def long(monkeypatch):
    """Few steps count as too many for patterns, searches and matrices in files."""
    course = "pmldesign.designs.participation.course"
    monkeypatch.setattr(f"{course}.SEARCHED_CELLS", 0)
    monkeypatch.setattr("pmldesign.designs.participation.bounds.PATTERN_CELLS", 0)
    monkeypatch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 0)
    monkeypatch.setattr("pmldesign.verifier.forms.form.MOST_CELLS", 0)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("workload", "text"),
    [("prefix:60", "4,min-sep=6"), ("prefix:61", "9,min-sep=7"), ("decay:60,0.9", "4,every=6")],
)
def test_long_designs_are_not_worse_than_square_roots_of_any_bands(workload, text, tmp_path):
    design = factorize(workload, participation=text)
    schema, queries = as_participation(text), as_workload(workload)
    for bands in (1, schema.apart, 2 * schema.apart, 4 * schema.apart, queries.shape[1]):
        other = pml.mechanism(f"banded:{bands}", queries, participation=text)
        assert design.certificate.upper <= other.error(2) * (1 + 1e-9)
    noisy = pml.mechanism(design, guarantee=pml.ApproxDP(1.0, 1e-6), noise="gaussian")
    write_strategy(tmp_path / "s.npz", design, mechanism=noisy)
    read = read_strategy(tmp_path / "s.npz")
    assert isinstance(read.whole, ToeplitzStrategy)
    assert np.array_equal(read.matrix, design.strategy.matrix)
    assert pml.mechanism(read, queries).error(2) == pytest.approx(design.certificate.upper)
    assert pml.verify(tmp_path / "s.npz").holds
    C, A = read.matrix, queries.to_dense()
    assert np.linalg.norm(A @ np.linalg.inv(C)) == pytest.approx(design.certificate.upper)


def test_toeplitz_strategies_that_do_not_fall_have_their_own_worst_pattern():
    schema, r = as_participation("2,min-sep=1"), np.array([1, 0.1, 10, 0, 0, 0, 0, 0])
    strategy = ToeplitzStrategy("odd", r, r, 1.0)
    exact = brute_force(strategy.matrix, schema)
    assert exact > np.linalg.norm(strategy.matrix[:, 0] + strategy.matrix[:, 1]) * 1.03
    assert distances.sensitivity(strategy, schema, "l2") == pytest.approx(exact, rel=1e-12)
    fixed = as_participation("2,every=1")
    assert distances.sensitivity(strategy, fixed, "l2") >= brute_force(strategy.matrix, fixed)


@pytest.mark.parametrize("r", [[0.0, 1.0], [1.0, -0.1], [1.0, np.nan], [], [np.inf, 1.0]])
def test_coefficients_that_are_no_strategy_are_refused(r):
    with pytest.raises(InvalidInputError, match="coefficients"):
        ToeplitzStrategy("odd", np.array(r), np.array(r), 1.0)


@given(
    n=st.integers(2, 9),
    seed=st.integers(0, 2**32 - 1),
    text=st.sampled_from(SCHEMAS),
    k=st.integers(0, 2),
    signed=st.booleans(),
)
def test_the_identity_with_rows_of_many_steps_is_not_written(n, seed, text, k, signed):
    """Nothing is negative in tents, whose distances are then exact in the l1 norm."""
    schema, rng = as_participation(text), np.random.default_rng(seed)
    rows = rng.normal(size=(k, n)) if signed else rng.uniform(0, 1, (k, n))
    strategy = IdentityAndRows("own", rng.uniform(0.1, 1, n), rows)
    matrix = np.vstack([np.diag(strategy.diagonal), rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distances, "MATRIX_ENTRIES", 0)
        squared = distances.sensitivity(strategy, schema, "l2")
        if not signed:
            patch.setattr(IdentityAndRows, "matrix", None)
        absolute = distances.sensitivity(strategy, schema, "l1")
    exact = brute_force(matrix, schema)
    assert exact <= squared
    if k == 0:
        assert squared == pytest.approx(exact, rel=1e-12)
    assert absolute >= brute_force(matrix, schema, 1)
    if not signed:
        assert absolute == pytest.approx(brute_force(matrix, schema, 1), rel=1e-12)
