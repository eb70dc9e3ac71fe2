"""A published table that contradicts alpha is doubted, and one that alpha allows is not."""

import warnings

import numpy as np
import pytest

import pmldesign as pml

GUARANTEES = [pml.PML(1.0, 0.2), pml.EnvelopePML(1.0, 1e-6, 0.2)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("queries", ["histogram:3", "prefix:3"])
def test_a_class_that_is_too_rare_is_named(guarantee, queries):
    made = pml.mechanism("identity", queries, guarantee=guarantee)
    with pytest.warns(UserWarning, match="the table contradicts alpha: query=0 has at most"):
        made.release(np.array([0, 5000, 5000]))


def test_data_from_alpha_are_hardly_ever_doubted():
    made = pml.mechanism("identity", "histogram:3", guarantee=GUARANTEES[0])
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for records in (0, 1, 10, 1000):
            for _ in range(20):
                made.release(rng.multinomial(records, [0.2, 0.2, 0.6]))


def test_differential_privacy_has_no_alpha():
    made = pml.mechanism("identity", "histogram:3", guarantee=pml.PureDP(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.release(np.array([0, 5000, 5000]))
