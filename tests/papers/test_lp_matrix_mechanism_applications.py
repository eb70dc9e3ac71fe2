"""[ZLU] Theorems 1.5, 1.6, 2.11 and 2.12 on small sizes, and where they fail as printed."""

import math

import numpy as np
import pytest

from pmldesign.designs import factorize
from pmldesign.error_bounds import all_bounds
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP, classical_gaussian_scale
from pmldesign.strategies import baseline
from pmldesign.workloads import as_workload

SIZES = [16, 32, 64, 128]


@pytest.mark.parametrize("p", [2, 4, 16])
def test_the_norm_of_prefix_sums_grows_as_theorem_1_5_says(p):
    """n^(1/p) (2 + ln((2n+1)/5) + ln(2n+1)/(2n))/pi <= gamma_(p) <= n^(1/p) sum of f(k)^2.

    f is the Toeplitz square root of Appendix G.2: f(0) = 1, f(k) = (1 - 1/(2k)) f(k - 1).
    """
    per_log = []
    for n in SIZES:
        found = factorize(f"prefix:{n}", p=p, rel_gap=1e-4).certificate
        k = np.arange(1, n)
        f = np.concatenate([[1.0], np.cumprod(1 - 1 / (2 * k))])
        lower = (2 + math.log((2 * n + 1) / 5) + math.log(2 * n + 1) / (2 * n)) / math.pi
        assert lower * n ** (1 / p) <= found.upper
        assert found.lower <= n ** (1 / p) * (f @ f)
        assert found.upper >= lower * n ** (1 / p)
        per_log.append(found.upper / n ** (1 / p) / math.log(n))
    assert per_log == sorted(per_log, reverse=True)  # from above towards a constant ...
    assert per_log[-1] > 1 / math.pi  # ... that is at least 1/pi by Theorem A.5


@pytest.mark.parametrize("p", [2, 4, 16])
@pytest.mark.parametrize("n", SIZES)
def test_square_root_with_the_classical_scale_meets_theorem_2_12(n, p):
    epsilon, delta = 0.5, 1e-6
    workload = as_workload(f"prefix:{n}")
    strategy = baseline("square-root", workload)
    unit = mechanism(strategy, workload, noise="gaussian", p=p)  # scale = l2 sensitivity
    error = unit.error(p) * classical_gaussian_scale(1, epsilon=epsilon, delta=delta)
    growth = n ** (1 / p) * math.log(n) * math.sqrt(min(p, math.log(n)))
    assert error <= 3 * growth * math.sqrt(math.log(1 / delta) / 2) / epsilon


@pytest.mark.parametrize(("d", "w"), [(3, 1), (4, 2), (5, 2), (5, 5), (6, 3)])
@pytest.mark.parametrize("p", [2, 3.5, math.inf])
def test_parity_queries_have_the_norm_of_theorem_1_6(d, w, p):
    m = math.comb(d, w)
    found = factorize(f"parity:{d},{w}", p=p).certificate
    exact = m ** (0.5 + 1 / p)
    assert found.lower <= exact * (1 + 1e-12)
    assert exact <= found.upper * (1 + 1e-12)
    assert found.gap < 1e-6
    guarantee = ApproxDP(0.5, 1e-6)
    listed = {
        bound.name: bound.value
        for bound in all_bounds(
            as_workload(f"parity:{d},{w}"),
            norm_lower=found.lower,
            norm_upper=found.upper,
            p=p,
            guarantee=guarantee,
        )
    }
    # the trivial Gaussian mechanism is optimal among Gaussian ones
    assert listed["Gaussian on the answers"] <= listed["Gaussian mechanisms"] * (1 + 1e-5)
    assert listed["parity"] <= listed["least variance"]


@pytest.mark.parametrize("p", [2, 8])
def test_bounds_grow_as_the_errors_do(p):
    """Upper over lower bound for every mechanism: the same for every n, as both follow gamma."""
    ratios = []
    for n in SIZES:
        made = factorize(f"prefix:{n}", p=p).certificate
        found = {
            bound.name: bound.value
            for bound in all_bounds(
                as_workload(f"prefix:{n}"),
                norm_lower=made.lower,
                norm_upper=made.upper,
                p=p,
                guarantee=ApproxDP(0.5, 1e-6),
            )
        }
        ratios.append(found["optimal Gaussian"] / found["least variance"])
    assert max(ratios) / min(ratios) < 1 + 1e-5


def test_theorem_2_12_is_not_claimed_for_two_prefix_sums():
    """n = 2, p = 2: log n = 0.69, but the norm is (1 + sqrt 5)/2 (n = 1: log n = 0, no noise)."""
    printed = math.sqrt(2) * math.log(2) * math.sqrt(min(2, math.log(2)))
    assert printed < 0.51 * (1 + math.sqrt(5)) / 2
    made = factorize("prefix:2").certificate
    (found,) = (
        bound
        for bound in all_bounds(
            as_workload("prefix:2"),
            norm_lower=made.lower,
            norm_upper=made.upper,
            p=2,
            guarantee=ApproxDP(0.5, 1e-6),
        )
        if bound.name == "Theorem 2.12"
    )
    assert not found.holds
