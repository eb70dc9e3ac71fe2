"""No mechanism that can be built is better than a lower bound of its class."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign.designs import factorize
from pmldesign.error_bounds import Kind, all_bounds
from pmldesign.errors import InvalidInputError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import (
    PML,
    ApproxDP,
    ApproxPML,
    EnvelopePML,
    Noise,
    PureDP,
    analytic_gaussian_scale,
    gaussian_moment_root,
)
from pmldesign.strategies import baseline
from pmldesign.workloads import as_workload

CLASSES = {Noise.GAUSSIAN: "Gaussian mechanisms", Noise.LAPLACE: "Laplace matrix mechanisms"}


def named(found, name):
    (bound,) = [bound for bound in found if bound.name == name]
    return bound


def random_workload(generator):
    m, n = generator.integers(1, 9), generator.integers(2, 7)
    kind = generator.integers(4)
    if kind == 0:
        return as_workload(generator.standard_normal((m, n)))
    if kind == 1:
        A = generator.integers(0, 2, (m, n)).astype(float)
        A[0] = np.arange(n) == 0
        return as_workload(A)
    return as_workload(f"prefix:{n}" if kind == 2 else f"all-range:{n}")


def random_guarantee(generator, kind, cells):
    epsilon, delta = 10 ** generator.uniform(-1.5, 0.7), 10 ** generator.uniform(-8, -0.5)
    if kind == "pure":
        return PureDP(epsilon, generator.choice(["add-remove", "replace"]))
    if kind == "approximate":
        return ApproxDP(epsilon, delta, generator.choice(["add-remove", "replace"]))
    alpha = generator.uniform(0.02, 0.9) / cells
    epsilon = generator.uniform(0.05, 0.9) * -math.log(alpha)
    family = generator.choice([PML, ApproxPML, EnvelopePML])
    return PML(epsilon, alpha) if family is PML else family(epsilon, delta * alpha, alpha)


@pytest.mark.parametrize("kind", ["pure", "approximate", "PML"])
def test_no_mechanism_is_below_a_lower_bound_of_its_class(kind):
    """6 random workloads, p, epsilon and delta; 3 strategies and 2 kinds of noise on each."""
    generator = np.random.default_rng(["pure", "approximate", "PML"].index(kind))
    ratios = []
    for _ in range(6):
        workload = random_workload(generator)
        p = generator.choice([2, 2.5, 4, 7, 16, math.inf])
        guarantee = random_guarantee(generator, kind, workload.shape[1])
        made = factorize(workload, p=p, neighbours=guarantee.neighbours, rel_gap=1e-4)
        norm = made.certificate
        found = all_bounds(
            workload, norm_lower=norm.lower, norm_upper=norm.upper, p=p, guarantee=guarantee
        )
        lower = {bound.name: bound.value for bound in found if bound.kind is Kind.LOWER}
        for strategy in (made.strategy, *(baseline(b, workload) for b in ("identity", "tree"))):
            noises = [Noise.LAPLACE]
            if not isinstance(guarantee, PureDP | PML):
                noises.append(Noise.GAUSSIAN)
            for noise in noises:
                error = mechanism(strategy, workload, guarantee=guarantee, noise=noise).error(p)
                for name, value in lower.items():
                    if value is not None and (
                        name not in CLASSES.values() or CLASSES[noise] == name
                    ):
                        assert value <= error * (1 + 1e-9), (name, workload.shape, p, guarantee)
                        ratios.append(value / error)
    assert len(ratios) > 30
    assert max(ratios) > 0.5  # the bounds are not far off either


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("p", [2, 5, math.inf])
def test_geometric_noise_on_one_count_meets_the_least_variance(p, neighbours):
    # one cell (add-remove) or one of two (replace) changes by 1: variance 1/(2 sinh^2(eps/2))
    workload = as_workload(np.ones((1, 1)) if neighbours == "add-remove" else np.array([[1.0, 0]]))
    found = all_bounds(workload, norm_lower=1, norm_upper=1, p=p, guarantee=PureDP(0.8, neighbours))
    exact = 1 / (math.sqrt(2) * math.sinh(0.4))
    assert named(found, "least variance").value == pytest.approx(exact, rel=2e-9)
    assert named(found, "least variance").value < exact
    staircase = named(found, "staircase")
    # it speaks of real values: whole counts do better
    assert staircase.value > exact if neighbours == "add-remove" else not staircase.holds


@settings(max_examples=4)
@given(st.floats(0.01, 1), st.floats(1e-9, 1e-3), st.sampled_from([2, 4, 9.5, math.inf]))
def test_identity_and_parity_meet_their_closed_forms(epsilon, delta, p):
    sigma = analytic_gaussian_scale(1, epsilon=epsilon, delta=delta)
    for name, norm in (("histogram:6", 6 ** (1 / p)), ("parity:4,2", 6 ** (1 / p + 0.5))):
        found = all_bounds(
            as_workload(name),
            norm_lower=norm,
            norm_upper=norm,
            p=p,
            guarantee=ApproxDP(epsilon, delta),
        )
        exact = gaussian_moment_root(p) * sigma * norm
        assert named(found, "Gaussian mechanisms").value == pytest.approx(exact, rel=2e-6)
        # noise on the answers is optimal for both
        for upper in ("optimal Gaussian", "Gaussian on the answers"):
            assert named(found, upper).value == pytest.approx(exact, rel=1e-9)
            assert named(found, upper).value >= named(found, "Gaussian mechanisms").value
        lower, parity = named(found, "least variance"), named(found, "parity")
        assert lower.value < exact
        if name == "histogram:6":
            assert not parity.holds
        elif parity.holds:
            assert parity.value == pytest.approx(named(found, "Schatten-1").value, rel=1e-9)
            assert parity.value == pytest.approx(
                named(found, "Theorem 2.1 for all").value, rel=1e-9
            )


@given(
    st.integers(1, 40),
    st.sampled_from([2, 3, 8, 20, 100, math.inf]),
    st.floats(0.01, 3),
    st.floats(-12, -1),
)
def test_lower_bounds_are_below_upper_bounds(n, p, epsilon, log_delta):
    workload = as_workload(f"prefix:{n}")
    norm = factorize(workload, p=p, rel_gap=1e-3).certificate
    guarantee = ApproxDP(epsilon, 10**log_delta)
    found = all_bounds(
        workload, norm_lower=norm.lower, norm_upper=norm.upper, p=p, guarantee=guarantee
    )
    smallest = min(b.value for b in found if b.kind is Kind.UPPER and b.holds)
    sharp = named(found, "least variance").value
    for bound in found:
        if bound.kind is Kind.LOWER and bound.holds and bound.name != "Laplace matrix mechanisms":
            assert bound.value <= smallest
            if bound.name not in ("Gaussian mechanisms", "least moment"):
                assert bound.value <= sharp


def test_all_mechanism_bound_is_ten_times_the_published_one():
    workload = as_workload("prefix:64")
    norm = factorize(workload).certificate
    found = all_bounds(
        workload,
        norm_lower=norm.lower,
        norm_upper=norm.upper,
        p=2,
        guarantee=ApproxDP(0.1, 1e-6),
    )
    published = named(found, "Theorem 2.1 for all")
    assert published.holds
    assert named(found, "total variation").value >= 10 * published.value
    assert named(found, "least variance").value >= 70 * published.value


def test_prefix_norm_of_theorem_a5_is_a_lower_bound():
    for n in (1, 2, 3, 8, 64, 300):
        logs = 2 + math.log((2 * n + 1) / 5) + math.log(2 * n + 1) / (2 * n)
        assert math.sqrt(n) * logs / math.pi <= factorize(f"prefix:{n}").certificate.upper


def test_theorem_d1_fails_for_large_p():
    """m = 1: log 2m < 1, but E|z|^p of a Gaussian grows like (p/e)^(p/2) however few queries."""
    epsilon, delta, p = 0.5, 1e-5, 400.0
    sigma = analytic_gaussian_scale(1, epsilon=epsilon, delta=delta)
    printed = 3 * math.sqrt(math.log(1 / delta) * min(p, math.log(2)) / 2) / epsilon
    best = gaussian_moment_root(p) * sigma  # no Gaussian noise does better on one count
    assert best > 2 * printed
    found = all_bounds(
        as_workload(np.ones((1, 1))),
        norm_lower=1,
        norm_upper=1,
        p=p,
        guarantee=ApproxDP(epsilon, delta),
    )
    assert not named(found, "Theorem D.1").holds


def test_conditions_of_theorem_2_1_are_checked():
    workload = as_workload("prefix:64")
    norm = factorize(workload).certificate
    arguments = {"norm_lower": norm.lower, "norm_upper": norm.upper, "p": 2}
    # eps kappa / (12 gamma) = 0.1 * 0.1257 / (12 * 16.799) = 6.24e-5 = 2 delta / (1 - e^-0.1)
    limit = 0.1 * 2 / math.sqrt(253) / (12 * norm.upper) * -math.expm1(-0.1) / 2
    assert named(
        all_bounds(workload, guarantee=ApproxDP(0.1, limit * 0.999), **arguments), "Theorem 2.1"
    ).holds
    refused = named(
        all_bounds(workload, guarantee=ApproxDP(0.1, limit * 1.001), **arguments), "Theorem 2.1"
    )
    assert not refused.holds
    assert "exceeds epsilon kappa" in refused.reason
    replaced = all_bounds(workload, guarantee=PureDP(1, "replace"), **arguments)
    assert "add-remove" in named(replaced, "Theorem 2.1").reason
    large = all_bounds(workload, guarantee=PureDP(800.0), **arguments)
    assert named(large, "Theorem 2.1 for all").value < 1e-300


def test_pure_dp_value_of_theorem_2_1():
    # 15/128 e^(3 eps/2)/(e^(3 eps) - 1) = 15/256 / sinh(3 eps/2)
    found = all_bounds(
        as_workload("parity:3,1"), norm_lower=3, norm_upper=3, p=2, guarantee=PureDP(0.4)
    )
    expected = 15 / 256 / math.sinh(0.6) * 3
    assert named(found, "Theorem 2.1").value == pytest.approx(expected, rel=1e-9)
    expected = 15 / 256 / math.sinh(1.2) * 3
    assert named(found, "Theorem 2.1 for all").value == pytest.approx(expected, rel=1e-9)


def test_errors_given_by_the_caller_are_upper_bounds():
    workload = as_workload("histogram:4")
    arguments = {"norm_lower": 2, "norm_upper": 2, "p": 2, "guarantee": PureDP(1)}
    found = all_bounds(workload, errors={"tree": 7.5}, **arguments)
    assert named(found, "tree").kind is Kind.UPPER
    assert named(found, "tree").value == pytest.approx(7.5, rel=1e-11)
    with pytest.raises(InvalidInputError, match="error of tree"):
        all_bounds(workload, errors={"tree": math.nan}, **arguments)


@pytest.mark.parametrize(
    "wrong", [{"norm_lower": 3}, {"norm_lower": math.nan}, {"norm_upper": math.inf}, {"p": 1.5}]
)
def test_wrong_arguments_are_refused(wrong):
    arguments = {"norm_lower": 2, "norm_upper": 2, "p": 2, "guarantee": PureDP(1)}
    with pytest.raises(InvalidInputError):
        all_bounds(as_workload("histogram:4"), **(arguments | wrong))
