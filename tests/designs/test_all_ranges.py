"""All intervals of more cells than there are arrays for, at p = 2."""

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import factorize, laplace_design
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.strategies import AllRangesStrategy
from pmldesign.workloads import AllRangesWorkload, RangeWorkload, as_workload
from pmldesign_solvers.search import FOLLOWED


def test_small_ones_agree_with_the_arrays():
    n = 60
    arrays, plain = as_workload(f"all-range:{n}"), AllRangesWorkload(n, name="all ranges")
    assert plain.shape == arrays.shape
    assert np.array_equal(plain.column_squares(), arrays.column_squares())
    other, design = factorize(arrays).certificate, factorize(plain)
    assert design.certificate.lower <= other.upper
    assert other.lower <= design.certificate.upper
    noisy = pml.mechanism(design)
    strategy = design.strategy
    assert noisy.error(2) == pytest.approx(
        np.linalg.norm(arrays.to_dense() @ np.linalg.inv(strategy.matrix)), rel=1e-9
    )
    longest = np.linalg.norm(strategy.matrix, axis=0).max()
    assert longest <= strategy.sensitivity <= longest * (1 + 1e-9)


def test_arrays_that_are_solved_as_a_chain():
    ranges = as_workload("all-range:30")
    chain, matrix = factorize(ranges, buffers=8), factorize(ranges)
    assert isinstance(chain.strategy, AllRangesStrategy)
    assert chain.certificate.lower <= matrix.certificate.upper
    assert matrix.certificate.lower <= chain.certificate.upper
    noisy, inverse = pml.mechanism(chain), np.linalg.inv(chain.strategy.matrix)
    deviations = np.linalg.norm(ranges.to_dense() @ inverse, axis=1)
    assert noisy.error(2) == pytest.approx(np.linalg.norm(deviations), rel=1e-9)
    assert noisy.max_std == pytest.approx(deviations.max(), rel=1e-9)
    # one range is missing, and one is there twice
    missing = RangeWorkload(ranges.starts[1:], ranges.stops[1:], 60)
    twice = RangeWorkload(
        np.r_[ranges.starts[1], ranges.starts[1:]], np.r_[ranges.stops[1], ranges.stops[1:]], 60
    )
    assert ranges.is_complete
    assert not missing.is_complete
    assert not twice.is_complete


def test_laplace_noise_without_arrays(monkeypatch, little_work):
    n = FOLLOWED + 1
    monkeypatch.setattr("pmldesign.designs.laplace.candidates.WRITTEN_CELLS", FOLLOWED)
    plain, guarantee = AllRangesWorkload(n, name="all ranges"), pml.PureDP(1.0)
    strategy = laplace_design(plain, guarantee).mechanism.strategy
    noisy = [
        pml.mechanism(strategy, workload, guarantee=guarantee, noise="laplace")
        for workload in (plain, as_workload(f"all-range:{n}"))
    ]
    deviations = noisy[1].factorization.deviations
    expected = noisy[1].scale * np.sqrt(2) * np.linalg.norm(deviations)
    for mechanism in noisy:
        assert mechanism.error(2) == pytest.approx(expected, rel=1e-9)
    identity = np.sqrt(2 * plain.column_squares().sum())
    assert noisy[0].error(2) < 0.8 * identity


def test_sizes_beyond_arrays(tmp_path):
    design = factorize("all-range:6000", rel_gap=1e-5)
    assert design.certificate.gap <= 1e-5
    write_strategy(tmp_path / "s.npz", design)
    read = read_strategy(tmp_path / "s.npz")
    assert isinstance(read, AllRangesStrategy)
    assert np.array_equal(read.w, design.strategy.w)
    noisy = pml.mechanism(read, "all-range:6000", guarantee=pml.ApproxDP(1, 1e-6), noise="gaussian")
    assert noisy.error(2) <= noisy.scale * design.certificate.upper
    assert noisy.known_max_std is None
    with pytest.raises(InvalidInputError, match="too many"):
        noisy.max_std  # noqa: B018


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 4}, "all-range:5792"),
        ({"neighbours": "replace"}, "all-range:5792"),
        ({"method": "primal"}, "at most 400 queries and cells together"),
        ({"p": np.inf}, "all-range:5792"),
    ],
)
def test_what_takes_arrays_is_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        factorize("all-range:6000", **options)


def test_products_are_refused():
    with pytest.raises(InvalidInputError, match="too many"):
        factorize("all-range:6000*total:2")
