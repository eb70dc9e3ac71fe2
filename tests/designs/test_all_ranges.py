"""All intervals of more cells than there are arrays for, at p = 2."""

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs.min_norm import factorize
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.strategies.all_ranges import AllRangesStrategy
from pmldesign.workloads import as_workload
from pmldesign.workloads.running import AllRangesWorkload


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
    "options", [{"p": 4}, {"neighbours": "replace"}, {"method": "primal"}, {"p": np.inf}]
)
def test_what_takes_arrays_is_refused(options):
    with pytest.raises(InvalidInputError, match=r"all-range:5792"):
        factorize("all-range:6000", **options)


def test_products_are_refused():
    with pytest.raises(InvalidInputError, match="too many"):
        factorize("all-range:6000*total:2")
