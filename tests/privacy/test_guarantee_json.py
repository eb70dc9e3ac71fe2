import json

import pytest

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import PML, ApproxDP, ApproxPML, EnvelopePML, Noise, PureDP, from_json

GUARANTEES = [
    PureDP(1.0000049),
    PureDP(0.1, "replace"),
    ApproxDP(0.3, 1e-9, "replace"),
    PML(0.1, 0.05),
    PML(0.1, (0.1, 0.2)),
    ApproxPML(1, 0.01, 1 / 3),
    EnvelopePML(1, 0.01, (0.1, 0.3)),
]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_numbers_survive_json(guarantee):
    text = json.dumps(guarantee.to_json())
    assert from_json(json.loads(text)) == guarantee


def test_what_the_numbers_are():
    assert ApproxPML(1, 0.01, 0.2).to_json() == {
        "kind": "pml",
        "epsilon": 1.0,
        "delta": 0.01,
        "alpha": 0.2,
        "neighbours": "replace",
        "failure": "slack",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0},
        {"epsilon": None},
        {"epsilon": "1"},
        {"epsilon": True},
        {"delta": 2.0},
        {"delta": "x"},
        {"alpha": 0.2},
        {"alpha": [None]},
        {"kind": "zcdp"},
        {"kind": "pml"},
        {"neighbours": "swap"},
        {"failure": "slack"},
        {"more": 1},
    ],
)
def test_other_numbers_are_refused(change):
    numbers = {**PureDP(1).to_json(), **change}
    with pytest.raises(InvalidInputError):
        from_json(numbers)
    for wrong in (None, [], {"epsilon": 1}):
        with pytest.raises(InvalidInputError, match="has the keys kind, epsilon"):
            from_json(wrong)


@pytest.mark.parametrize(
    ("epsilon", "shown"), [(1.0000049, "e^1.0000049 "), (1 / 3, "e^0.3333333333333333 ")]
)
def test_words_have_all_digits(epsilon, shown):
    for guarantee in (PureDP(epsilon), ApproxDP(epsilon, 1.00000001e-6), PML(epsilon, 0.1)):
        assert shown in guarantee.describe(4)
    assert "plus 1.00000001e-06" in ApproxDP(1, 1.00000001e-6).describe(4)
    assert "at least 0.05000001," in EnvelopePML(1, 0.1, 0.05000001).describe(4)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e155, 1e308])
def test_epsilon_beyond_the_range_of_scales_is_refused(epsilon):
    for build in (PureDP, lambda e: ApproxDP(e, 0.1), lambda e: PML(e, 0.1)):
        with pytest.raises(InvalidInputError, match=r"between 1e-100 and 1e\+100, got"):
            build(epsilon)


@pytest.mark.parametrize("value", [5e-324, 1e-310])
def test_subnormal_probabilities_are_refused(value):
    with pytest.raises(InvalidInputError, match="delta must be at least 1e-300"):
        ApproxDP(1, value)
    with pytest.raises(InvalidInputError, match="alpha must be at least 1e-300"):
        PML(1, value)
    with pytest.raises(InvalidInputError, match="alpha of cell 1 must be at least 1e-300"):
        PML(1, (0.1, value))


def test_what_a_guarantee_answers_about_itself():
    for guarantee in GUARANTEES:
        assert guarantee.pml == isinstance(guarantee, PML | ApproxPML | EnvelopePML)
        assert (guarantee.delta > 0) == guarantee.admits(Noise.GAUSSIAN)
        assert guarantee.admits(Noise.LAPLACE)
        assert guarantee.noises == tuple(noise for noise in Noise if guarantee.admits(noise))


def test_a_delta_of_zero_is_no_delta():
    with pytest.raises(InvalidInputError, match=r"delta must be in \(0, 1\), got 0"):
        ApproxDP(1, 0)
