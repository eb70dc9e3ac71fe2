"""Several releases together."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad
from scipy.linalg import hadamard
from scipy.stats import norm

import pmldesign as pml
from pmldesign.privacy import Noise, PrivacyCurve
from pmldesign.workloads import DenseWorkload, UnionWorkload


def release(text, guarantee, noise):
    return pml.mechanism("tree", text, guarantee=guarantee, noise=noise)


def test_gaussian_releases_are_one():
    releases = [release("prefix:4", pml.GaussianDP(mu), "gaussian") for mu in (0.3, 0.4, 1.2)]
    together = pml.compose(releases)
    assert together.mu == pytest.approx(1.3, rel=1e-12)
    assert together.mu >= 1.3 - 1e-15
    assert together.rho == pytest.approx(sum(noisy.privacy.rho for noisy in releases), rel=1e-12)
    accountant = RdpAccountant([2.0, 8.0])
    accountant.compose(dp_event.ComposedDpEvent([noisy.dp_event() for noisy in releases]))
    assert together.renyi(8) == pytest.approx(accountant._rdp[1], rel=1e-9)
    assert together.renyi(8) >= accountant._rdp[1] * (1 - 1e-12)


def test_gaussian_releases_are_those_of_the_stacked_strategy():
    first, second = np.tril(np.ones((4, 4))), np.eye(4)
    curves = [
        pml.mechanism(R, "histogram:4", guarantee=pml.GaussianDP(1), noise="gaussian").privacy
        for R in (first, second)
    ]
    assert pml.compose(curves).mu == pytest.approx(np.sqrt(2))


def test_laplace_releases_are_never_below_what_an_accountant_says():
    releases = [release("prefix:4", pml.PureDP(epsilon), "laplace") for epsilon in (0.3, 0.5)]
    together = pml.compose(releases)
    assert together.pure == pytest.approx(0.8)
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp_event.ComposedDpEvent([noisy.dp_event() for noisy in releases]))
    for epsilon in (0.1, 0.4, 0.7):
        assert together.delta(epsilon) >= accountant.get_delta(epsilon) - 1e-3


def both_densities(x, s, t, epsilon):
    """(p - e^eps q)_+ over the Gaussian coordinate, for Laplace noise at x."""
    ratio = math.exp(epsilon + abs(x) - abs(x - t))  # e^eps q/p of the Laplace pair
    shift = math.log(ratio)
    mass = norm.cdf(s / 2 - shift / s) - ratio * norm.cdf(-s / 2 - shift / s)
    return math.exp(-abs(x)) / 2 * mass


@pytest.mark.parametrize(("s", "t"), [(0.3, 0.5), (1.0, 1.0), (0.2, 3.0)])
def test_both_kinds_of_noise_against_integration(s, t):
    releases = [
        pml.mechanism("identity", "histogram:3", guarantee=pml.GaussianDP(s), noise="gaussian"),
        pml.mechanism("identity", "histogram:3", guarantee=pml.PureDP(t), noise="laplace"),
    ]
    together = pml.compose(releases)
    for epsilon in (0.0, 0.4, t, t + s):
        pieces = [(-40, 0), (0, t), (t, 40 + t)]
        exact = sum(
            quad(both_densities, *piece, (s, t, epsilon), epsabs=0, epsrel=1e-10)[0]
            for piece in pieces
        )
        assert exact * (1 - 1e-9) <= together.delta(epsilon) <= exact * (1 + 1e-5)
    assert together.delta(together.epsilon(1e-5)) <= 1e-5
    assert together.rho == pytest.approx(sum(noisy.privacy.rho for noisy in releases))
    assert together.renyi(8) >= sum(noisy.privacy.renyi(8) for noisy in releases)
    # Gaussian DP of this mu has no smaller delta anywhere
    dominating = PrivacyCurve(Noise.GAUSSIAN, together.mu)
    assert all(together.delta(e) <= dominating.delta(e) * (1 + 1e-5) for e in (0.0, 0.5, 2.0))


def test_both_kinds_of_noise_in_any_order_and_number():
    gaussian = [release("prefix:4", pml.GaussianDP(mu), "gaussian") for mu in (0.3, 0.4)]
    laplace = [release("prefix:4", pml.PureDP(epsilon), "laplace") for epsilon in (0.3, 0.5)]
    together = pml.compose([gaussian[0], laplace[0], laplace[1], gaussian[1]])
    assert together.gaussian_part.mu == pytest.approx(0.5)
    assert together.laplace_part.pure == pytest.approx(0.8)
    nested = pml.compose([pml.compose([gaussian[0], laplace[0]]), *laplace[1:], *gaussian[1:]])
    assert nested.delta(1.0) == pytest.approx(together.delta(1.0), rel=1e-9)
    assert together.to_json()["epsilon"] is None


def test_what_does_not_go_together_is_refused():
    gaussian = release("prefix:4", pml.ZCDP(1), "gaussian")
    known = pml.mechanism(
        "tree", "prefix:4", guarantee=pml.ZCDP(1), noise="gaussian", known="histogram:2*total:2"
    )
    replaced = pml.mechanism("tree", "prefix:4", guarantee=pml.ZCDP(1, "replace"), noise="gaussian")
    with pytest.raises(pml.InvalidInputError, match="known answers"):
        pml.compose([known, replaced])
    with pytest.raises(pml.InvalidInputError, match="nothing"):
        pml.compose([])
    other = pml.mechanism("tree", "prefix:4", guarantee=pml.ZCDP(1, "replace"), noise="gaussian")
    with pytest.raises(pml.InvalidInputError, match="neighbours"):
        pml.compose([gaussian, other])


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
def test_parts_that_share_no_measurement_have_shares_in_closed_form(p):
    """Orthogonal queries of entries 1 and -1: least sum of (c_i^2/s_i)^(p/2) over shares s."""
    rows, weights = hadamard(4), np.array([1.0, 2.0, 3.0, 5.0])
    parts = [
        DenseWorkload(c * row[None], name=f"q{c}") for c, row in zip(weights, rows, strict=True)
    ]
    shares = pml.factorize(UnionWorkload(parts), p=p, rel_gap=1e-10).budget_shares
    expected = weights**2 if math.isinf(p) else weights ** (2 * p / (p + 2))
    assert list(shares.values()) == pytest.approx(expected / expected.sum(), rel=1e-3)


def test_parts_alone_have_no_shares():
    assert pml.factorize("prefix:8").budget_shares is None
    marginals = pml.factorize("marginals:3,4,ways=1").budget_shares
    assert sum(marginals.values()) == pytest.approx(1)


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_shares_of_marginals_are_the_same_by_a_semidefinite_program(p):
    own, program = (
        pml.factorize("marginals:3,4,ways=1", p=p, rel_gap=1e-6, method=method).budget_shares
        for method in ("scaling", "dual")
    )
    assert program == pytest.approx(own, abs=1e-3)


def test_joint_design_is_no_worse_than_releases_with_shares_of_the_budget():
    """The weighted union at p = 2, against every split of rho between its parts."""
    joint = pml.factorize("prefix:8+2*histogram:8").certificate.upper
    norms = [pml.factorize(text).certificate.lower for text in ("prefix:8", "2*histogram:8")]
    apart = min(
        np.hypot(norms[0] / np.sqrt(share), norms[1] / np.sqrt(1 - share))
        for share in np.linspace(0.01, 0.99, 99)
    )
    assert joint < apart
