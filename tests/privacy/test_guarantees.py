import math

import numpy as np
import pytest

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import PML, ApproxDP, ApproxPML, EnvelopePML, Neighbours, PureDP


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_epsilon_must_be_positive_and_finite(epsilon):
    with pytest.raises(InvalidInputError, match="epsilon must be positive and finite, got"):
        PureDP(epsilon)
    with pytest.raises(InvalidInputError, match="epsilon"):
        PML(epsilon, 0.1)


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan])
def test_delta_must_be_a_probability(delta):
    for guarantee in (
        ApproxDP,
        lambda e, d: ApproxPML(e, d, 0.1),
        lambda e, d: EnvelopePML(e, d, 0.1),
    ):
        with pytest.raises(InvalidInputError, match=r"delta must be in \(0, 1\), got"):
            guarantee(1.0, delta)


def test_alpha_above_one_over_k_names_the_range_for_that_k():
    with pytest.raises(InvalidInputError) as caught:
        PML(1.0, 0.2).class_probabilities(8)
    assert str(caught.value) == "alpha must be in (0, 1/k] = (0, 0.125] for k = 8 cells, got 0.2"


@pytest.mark.parametrize(
    "alpha", [0, -0.1, math.nan, 1.01, [], [0.5, 0.6], [0.1, 0.0], "x", None, [[0.1]]]
)
def test_alpha_out_of_range_is_refused_at_once(alpha):
    with pytest.raises(InvalidInputError, match="alpha"):
        PML(1.0, alpha)


@pytest.mark.parametrize("cells", range(1, 200))
def test_alpha_of_exactly_one_over_k_is_a_known_prior(cells):
    least = PML(1.0, 1 / cells).class_probabilities(cells)
    assert least.shape == (cells,)
    assert least.sum() == pytest.approx(1, abs=1e-14)


def test_a_vector_of_alpha_is_kept_and_must_fit_the_cells():
    guarantee = ApproxPML(1.0, 0.1, np.array([0.2, 0.3, 0.5]))
    assert guarantee.alpha == (0.2, 0.3, 0.5)
    np.testing.assert_array_equal(guarantee.class_probabilities(3), [0.2, 0.3, 0.5])
    with pytest.raises(InvalidInputError, match="k = 4 cells, got 3"):
        guarantee.class_probabilities(4)


def test_a_sum_above_one_by_rounding_is_a_known_prior():
    vector = (0.25, 0.25, 0.5 + 9e-13)
    least = PML(1.0, vector).class_probabilities(3)
    assert least.sum() == pytest.approx(1, abs=2e-16)
    assert PML(1.0, (1 / 3 + 3e-13,) * 3).class_probabilities(3).sum() <= 1 + 2e-16


def test_guarantees_are_values():
    assert PML(1, [0.2, 0.3]) == PML(1.0, (0.2, 0.3))
    assert len({PML(1, [0.2, 0.3]), PML(1.0, (0.2, 0.3)), PureDP(1)}) == 2
    assert PureDP(1, "replace").neighbours is Neighbours.REPLACE
    assert PureDP(1).neighbours is Neighbours.ADD_REMOVE
    assert PML(1, 0.1).neighbours is Neighbours.REPLACE
    with pytest.raises(InvalidInputError, match="neighbours must be 'add-remove' or 'replace'"):
        ApproxDP(1, 0.1, "swap")


def test_vacuous_from_the_logarithm_of_one_over_the_least_alpha():
    assert PML(math.log(8), 0.125).is_vacuous(8)
    assert not PML(math.log(8) - 1e-9, 0.125).is_vacuous(8)
    assert EnvelopePML(math.log(20), 0.1, (0.05, 0.5)).is_vacuous(2)
    # a slack of 1 - e^eps min alpha = 1 - 4 * 0.05 covers the release of the data themselves
    assert ApproxPML(math.log(4), 0.8000001, (0.05, 0.5)).is_vacuous(2)
    assert not ApproxPML(math.log(4), 0.7999999, (0.05, 0.5)).is_vacuous(2)
    assert ApproxPML(math.log(20), 1e-9, (0.05, 0.5)).is_vacuous(2)


def test_descriptions_say_to_whom_and_under_which_assumption():
    for guarantee in (PML(1, 0.05), ApproxPML(1, 1e-3, 0.05), EnvelopePML(1, 1e-3, 0.05)):
        text = guarantee.describe(8)
        for part in ("e^1 ", "independent", "8 cells", "at least 0.05", "number is public"):
            assert part in text
    assert "from 0.1 to 0.4" in PML(1, (0.1, 0.4)).describe(2)
    assert "0.001" in EnvelopePML(1, 1e-3, 0.05).describe(8)
    assert "added or removed" in PureDP(0.5).describe(3)
    assert "replaced" in ApproxDP(0.5, 1e-6, "replace").describe(3)
