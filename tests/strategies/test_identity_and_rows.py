import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import PML, DistanceProfile, Neighbours, calibrate
from pmldesign.strategies import (
    DENSE_ROWS,
    BesideStrategy,
    IdentityAndRows,
    Strategy,
    TableMatricesStrategy,
)
from pmldesign.workloads import RECORDS, as_workload, given_invariants, parse_workload


@settings(max_examples=12)
@given(n=st.integers(1, 9), k=st.integers(1, 4), seed=st.integers(0, 999))
def test_it_is_the_strategy_of_its_matrix(n, k, seed):
    rng = np.random.default_rng(seed)
    own = IdentityAndRows("own", rng.uniform(0.2, 2, n), rng.normal(size=(k, n)) + 0.1)
    plain = Strategy("plain", own.matrix)
    assert own.shape == plain.shape
    np.testing.assert_allclose(own.pseudo_inverse, plain.pseudo_inverse, atol=1e-10)
    for relation in Neighbours:
        for norm in ("l1", "l2"):
            expected = plain.sensitivity_under(relation, norm)
            assert own.sensitivity_under(relation, norm) == pytest.approx(expected, rel=1e-13)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=n + k)
    np.testing.assert_allclose(own.measure(x), plain.measure(x), atol=1e-12)
    np.testing.assert_allclose(own.estimate(y), plain.estimate(y), atol=1e-9)
    for name in (f"prefix:{n}", f"all-range:{n}"):
        workload = parse_workload(name)
        np.testing.assert_allclose(own.variances(workload), plain.variances(workload), rtol=1e-8)
        total = own.variance_norm(workload, 1)
        assert total == pytest.approx(plain.variance_norm(workload, 1), rel=1e-9)
        centred = given_invariants(workload, RECORDS)
        np.testing.assert_allclose(
            own.variances(centred), plain.variances(centred), rtol=1e-8, atol=1e-12
        )


@pytest.mark.parametrize("weight", [1.0, 1.1e-3])
def test_small_weights_keep_their_digits(weight):
    """Beside a row of norm 1 in every column; fractions know the variances."""
    d, theta = [Fraction(weight), Fraction(1, 2)], [Fraction(1), Fraction(1, 3)]
    a, c, b = d[0] ** 2 + theta[0] ** 2, theta[0] * theta[1], d[1] ** 2 + theta[1] ** 2
    expected = np.array([b, a, a + b - 2 * c]) / (a * b - c * c)
    strategy = IdentityAndRows("own", [float(x) for x in d], [[float(x) for x in theta]])
    variances = strategy.variances(as_workload([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    np.testing.assert_allclose(variances, expected.astype(float), rtol=1e-9)


def test_weights_without_digits_are_refused():
    # at 1e-9 the variances came out as zero
    with pytest.raises(InvalidInputError, match="give the whole matrix"):
        IdentityAndRows("own", [1e-9, 1e-9], [[1.0, 0.6], [0.0, 0.4]])


def test_wrong_arguments():
    with pytest.raises(InvalidInputError, match="positive weight for each of its 2 cells"):
        IdentityAndRows("bad", [1.0], [[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="positive weight"):
        IdentityAndRows("bad", [1.0, 0.0], [[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match=r"must be a matrix .* got shape \(0,\)"):
        IdentityAndRows("bad", [1.0, 2.0], [])
    with pytest.raises(InvalidInputError, match="must have the same cells"):
        IdentityAndRows("own", [1.0, 1.0], [[1.0, 2.0]]).variances(parse_workload("prefix:3"))


@pytest.mark.parametrize("name", ["all-range:6", "2*prefix:6+histogram:6", "prefix:2*prefix:3"])
def test_weighted_squares_are_those_of_the_matrix(name):
    workload = parse_workload(name)
    weights = np.array([1e-6, 2.0, 0.0, 3.0, 1e5, 0.5])
    for asked in (workload, given_invariants(workload, RECORDS)):
        expected = asked.to_dense() ** 2 @ weights
        size = np.abs(expected).max()
        np.testing.assert_allclose(asked.weighted_squares(weights), expected, atol=1e-12 * size)


@pytest.mark.parametrize("name", ["prefix:9", "all-range:9", "prefix:3*prefix:3"])
def test_a_public_total_is_that_of_the_matrix(name):
    rng = np.random.default_rng(1)
    rows = IdentityAndRows("rows", rng.uniform(0.2, 1, 9), rng.uniform(0, 1, (2, 9)))
    public, matrix = BesideStrategy(rows), Strategy("matrix", RECORDS.centre(rows.matrix))
    asked, y = given_invariants(parse_workload(name), RECORDS), rng.normal(size=11)
    np.testing.assert_allclose(
        public.variances(asked), matrix.variances(asked), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(public.estimate(y), matrix.estimate(y), atol=1e-11)
    for norm in ("l1", "l2"):
        expected = matrix.sensitivity_under(Neighbours.REPLACE, norm)
        assert public.sensitivity_under(Neighbours.REPLACE, norm) == pytest.approx(expected)


def test_many_cells_keep_their_rows_under_replace():
    n = DENSE_ROWS + 1
    rows = IdentityAndRows("rows", np.full(n, 0.5), np.full((1, n), 0.5))
    assert isinstance(rows.beside(RECORDS), BesideStrategy)


def test_a_single_column_is_as_far_from_itself_as_nothing():
    profile = DistanceProfile.all_at(3.0, 1)
    assert profile.row(0.5)[0].max() == 0
    total = TableMatricesStrategy("total", (60, 60), [()], [np.ones((1, 1))])
    for guarantee, noise in [
        (pml.PML(0.1, 1e-4), "laplace"),
        (pml.EnvelopePML(0.1, 1e-6, 1e-4), "gaussian"),
    ]:
        assert pml.calibrate(total, guarantee, noise=noise).scale == 0
    assert total.sensitivity_under("replace", "l1") == 0


def test_the_noise_of_very_many_cells_under_pml_takes_no_matrix():
    """All cells differ, and the farthest two are 2 + 1 apart."""
    strategy = IdentityAndRows("ramp", np.ones(24_000), np.linspace(0, 1, 24_000)[None])
    scale = calibrate(strategy, PML(1.0, 1e-5), noise="laplace").scale
    assert scale == pytest.approx(-3 / math.log((math.exp(-1) - 1e-5) / (1 - 1e-5)), rel=1e-5)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("whole", [True, False])
def test_the_farthest_of_many_cells_are_found_by_signs(k, whole):
    rng, n = np.random.default_rng(k), 2100
    rows = rng.integers(-3, 4, (k, n)) if whole else rng.normal(size=(k, n))
    diagonal = rng.integers(2, 5, n) if whole else rng.uniform(1, 2, n)
    apart = diagonal[:, None] + diagonal + np.abs(rows[:, :, None] - rows[:, None]).sum(axis=0)
    np.fill_diagonal(apart, 0)
    i, j = np.unravel_index(apart.argmax(), apart.shape)
    far = [(rows[row, i].item(), rows[row, j].item()) for row in range(k)]
    exact = sum(abs(Fraction(a) - Fraction(b)) for a, b in far)
    exact += Fraction(diagonal[i].item()) + Fraction(diagonal[j].item())
    shown = IdentityAndRows("rows", diagonal, rows).sensitivity_under("replace", "l1")
    assert exact <= Fraction(shown) <= exact * (1 + Fraction(0 if whole else 1e-13))


def test_the_l2_norm_of_very_many_cells_takes_no_matrix():
    """The farthest two are 3^(1/2) apart; a bound is twice the longest, 2^(1/2)."""
    strategy = IdentityAndRows("ramp", np.ones(24_000), np.linspace(0, 1, 24_000)[None])
    assert 3**0.5 <= strategy.sensitivity_under("replace", "l2") <= 2 * 2**0.5 * (1 + 1e-12)
