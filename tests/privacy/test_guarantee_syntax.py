"""The text of a guarantee: what it means, what is refused, and that it reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign import (
    PML,
    ZCDP,
    ApproxDP,
    ApproxPML,
    EnvelopePML,
    GaussianDP,
    InvalidInputError,
    PureDP,
    RenyiDP,
)
from pmldesign.privacy import guarantee_text, parse_guarantee

MEANINGS = {
    "dp:1": PureDP(1),
    "dp:0.5,neighbours=replace": PureDP(0.5, "replace"),
    " dp:1, delta=1e-6 ": ApproxDP(1, 1e-6),
    "zcdp:0.5": ZCDP(0.5),
    "gdp:1": GaussianDP(1),
    "renyi:8,0.3,neighbours=replace": RenyiDP(8, 0.3, "replace"),
    "pml:1,alpha=0.1": PML(1, 0.1),
    "pml:1,alpha=0.1,delta=1e-6": EnvelopePML(1, 1e-6, 0.1),
    "pml:1,delta=1e-6,alpha=0.1,failure=slack": ApproxPML(1, 1e-6, 0.1),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_meaning(text):
    assert parse_guarantee(text) == MEANINGS[text]
    assert parse_guarantee(guarantee_text(MEANINGS[text])) == MEANINGS[text]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "followed by a colon"),
        ("dp", "followed by a colon"),
        ("dp:", "dp starts with epsilon"),
        ("epsilon:1", "the kind must be one of dp, zcdp, gdp, renyi, pml"),
        ("dp:x", "'x' is not a number"),
        ("dp:1_0", "not a number"),
        ("dp:1,2", "dp starts with epsilon"),
        ("renyi:8", "renyi starts with order and epsilon"),
        ("gdp:1,delta=1e-6", "'delta' is not a key of gdp"),
        ("dp:1,delta=1e-6,delta=1e-9", "each key once"),
        ("dp:1,delta=1e-6,2", "must be key=value"),
        ("pml:1", "pml needs alpha"),
        ("pml:1,alpha=a.csv", "'a.csv' is not a number"),
        ("pml:1,alpha=0.1,confidence=0.9", "confidence needs alpha=sample:FILE"),
        ("pml:1,alpha=0.1,failure=slack", "failure needs a delta"),
        ("pml:1,alpha=0.1,delta=0.1,failure=none", "envelope or slack"),
        ("dp:1,delta=2", "delta must be in"),
        ("dp:1,neighbours=weekly", "neighbours must be"),
    ],
)
def test_refusals(text, problem):
    with pytest.raises(InvalidInputError, match=problem):
        parse_guarantee(text)


def test_an_open_budget():
    found = parse_guarantee("renyi:8", open_budget=True)
    assert (type(found), found.order) == (RenyiDP, 8)
    slack = parse_guarantee("pml:alpha=0.1,delta=0.2,failure=slack", open_budget=True)
    assert (type(slack), slack.alpha, slack.delta) == (ApproxPML, 0.1, 0.2)
    for closed in ("zcdp:1", "renyi:8,0.3", "dp:1,delta=1e-6"):
        with pytest.raises(InvalidInputError, match=r"its budget is searched|starts with order;"):
            parse_guarantee(closed, open_budget=True)


def test_files_and_samples_are_read_by_the_caller():
    asked = []

    def read(source, confidence):
        asked.append((source, confidence))
        return (0.1, 0.2, 0.3)

    text = "pml:1,alpha=sample:people.csv,confidence=0.9"
    found = parse_guarantee(text, read_alpha=read)
    assert found == PML(1, (0.1, 0.2, 0.3))
    assert asked == [("sample:people.csv", 0.9)]
    assert guarantee_text(found) == "pml:1,alpha=(3 values, the least 0.1)"


POSITIVE = st.floats(1e-50, 1e50)
RELATION = st.sampled_from(["add-remove", "replace"])


@given(
    st.one_of(
        st.builds(PureDP, POSITIVE, RELATION),
        st.builds(ApproxDP, POSITIVE, st.floats(1e-200, 0.99), RELATION),
        st.builds(ZCDP, POSITIVE, RELATION),
        st.builds(GaussianDP, POSITIVE, RELATION),
        st.builds(RenyiDP, st.floats(1.001, 1e6), POSITIVE, RELATION),
        st.builds(PML, POSITIVE, st.floats(1e-200, 0.5)),
        st.builds(EnvelopePML, POSITIVE, st.floats(1e-200, 0.99), st.floats(1e-200, 0.5)),
        st.builds(ApproxPML, POSITIVE, st.floats(1e-200, 0.99), st.floats(1e-200, 0.5)),
    )
)
def test_every_digit_reads_back(guarantee):
    assert parse_guarantee(guarantee_text(guarantee)) == guarantee
