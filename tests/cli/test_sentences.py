"""What documents say of a guarantee: short lines, and nothing left out."""

import re
from itertools import product

import pytest

import pmldesign as pml
from pmldesign.cli import promised
from pmldesign.strategies import as_participation

EPSILON, DELTA, LEAST = 0.1234567891, 1.23456789e-10, 1.2345678901234567e-05
NAMED = "sex + age"
SAMPLE = pml.envelope.sampled_alpha([50000, 0, 90000, 123456], 0.987654321)
ALPHAS = (LEAST, (0.12345678901234567, 0.2, 0.30000000000000004, LEAST), SAMPLE)
NEIGHBOURS = [("add-remove", ""), ("replace", ""), ("replace", "total"), ("replace", NAMED)]
ROWS = (None, "3,any", "12,one-per=cell", "12,one-per=1x2x2")
GUARANTEES = [
    *(
        make(neighbours, known=known)
        for (neighbours, known), make in product(
            NEIGHBOURS,
            [
                lambda *a, **k: pml.PureDP(EPSILON, *a, **k),
                lambda *a, **k: pml.ApproxDP(EPSILON, DELTA, *a, **k),
                lambda *a, **k: pml.ZCDP(EPSILON, *a, **k),
                lambda *a, **k: pml.GaussianDP(EPSILON, *a, **k),
                lambda *a, **k: pml.RenyiDP(2.5000000000000004, EPSILON, *a, **k),
            ],
        )
    ),
    *(pml.PML(EPSILON, alpha) for alpha in ALPHAS),
    *(pml.ApproxPML(EPSILON, DELTA, alpha) for alpha in ALPHAS),
    *(pml.EnvelopePML(EPSILON, DELTA, alpha) for alpha in ALPHAS),
]


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_every_line_of_a_guarantee_has_less_than_200_characters(guarantee):
    for rows in map(as_participation, ROWS):
        said = guarantee.describe(4) + ("" if rows is None else rows.sentence)
        facts = promised(said)
        assert max(len(text) for _, text in facts) < 200
        assert facts[0][0] == "guarantee"
        assert facts[0][1].endswith(".")
        names = [name for name, _ in facts]
        assert len(set(names)) == len(names)
        assert ("record" in names) == (rows is not None)
        assert ("public" in names) == bool(guarantee.known)
        assert ("provided" in names) == guarantee.pml
        # every word and number of the sentence is in one of the lines, and no other
        words = sorted(re.findall(r"[\w.+^*:-]*\w", said))
        shown = sorted(re.findall(r"[\w.+^*:-]*\w", " ".join(text for _, text in facts)))
        joints = ["provided", "that", "and"] if guarantee.pml else []
        for joint in joints if "frequencies" in names else joints[:2]:
            words.remove(joint)
        assert shown == words
