"""Sets of plain attributes that are asked together, against their definition one by one."""

from itertools import chain, combinations
from math import prod, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign_solvers.tables import Tables, sectors

SIZES = (2, 3, 3, 1, 4)  # two factors on the last attribute
ATTRIBUTE = (0, 1, 2, 3, 4, 4)


def problem(tables, weights):
    grams = (1.0, 1.0, 1.0, 1.0, np.eye(4), np.ones((4, 4)))
    return Tables(SIZES, ATTRIBUTE, grams, tuple(tables), np.array(weights))


def subsets(members):
    return chain.from_iterable(combinations(members, k) for k in range(len(members) + 1))


EVERY = [s for s in subsets(range(6)) if not {4, 5} <= set(s)]


@given(st.lists(st.sampled_from(EVERY), min_size=1, unique=True), st.data())
def test_coefficients_are_sums_over_tables(tables, data):
    weights = [data.draw(st.sampled_from([1.0, 2.0, 0.3])) for _ in tables]
    expected = {}
    for table, weight in zip(tables, weights, strict=True):
        plain = [k for k in table if k < 4]
        for q in subsets(plain):
            h = prod((SIZES[k] - 1) ** 2 / SIZES[k] for k in q)
            value = weight * h / prod(SIZES[k] for k in plain if k not in q)
            if value > 0:
                key = q, tuple(k for k in table if k >= 4)
                expected[key] = expected.get(key, 0.0) + value
    seen = {}
    for batch in sectors.batches(problem(tables, weights)):
        for row, weight, members in zip(
            batch.coefficients, batch.weights, batch.members, strict=True
        ):
            assert sum(members.values()) == pytest.approx(1)
            for q, share in members.items():
                for u, value in zip(batch.tables, row, strict=True):
                    assert (q, u) not in seen
                    seen[q, u] = value * (share * weight) ** 2
    assert seen == pytest.approx(expected, rel=1e-11)


def test_sets_alike_are_one():
    tables = [(0, 1), (0, 2), (1, 2), (0, 4), (1, 4), (2, 4)]
    (pairs,) = [b for b in sectors.batches(problem(tables, np.ones(6))) if b.tables == ((),)]
    (members,) = pairs.members
    assert members.keys() == {(0, 1), (0, 2), (1, 2)}
    assert pairs.weights == pytest.approx([sqrt(1 / 2 * 4 / 3) * 2 + 4 / 3])
