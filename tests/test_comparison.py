"""compare(): every row is what its mechanism says, in the order asked for."""

import math

import numpy as np
import pytest
from scipy import integrate

import pmldesign.comparison
from pmldesign.comparison import compare
from pmldesign.errors import InvalidInputError, VacuousGuaranteeError
from pmldesign.guarantees import PML, ApproxDP, PureDP
from pmldesign.mechanism import mechanism
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import parse_workload

NAMES = ["tree", "tree:3", "haar", "identity", "workload", "square-root"]


@pytest.mark.parametrize("guarantee", [None, PureDP(0.5), ApproxDP(1.0, 1e-6), PML(1.0, 0.05)])
def test_rows_are_those_of_the_mechanisms(guarantee):
    workload = parse_workload("prefix:9")
    shown = compare(workload, NAMES, p=[2, 4, math.inf], guarantee=guarantee)
    expected = [(p, name) for p in (2.0, 4.0, math.inf) for name in NAMES]
    assert [(row.p, row.strategy) for row in shown.rows] == expected
    for row in shown.rows:
        made = mechanism(baseline(row.strategy, workload), workload, guarantee=guarantee, p=row.p)
        assert (row.noise, row.scale) == (made.noise.value, made.scale)
        assert (row.sensitivity, row.error) == (made.sensitivity, made.error(row.p))
        assert (row.rmse, row.max_std) == (made.rmse, made.max_std)
        best = min(other.error for other in shown.rows if other.p == row.p)
        assert row.ratio == row.error / best
    assert shown.designs == {}


def moment_root(p):
    """(E |N(0, 1)|^p)^(1/p), by integration: the error of one query with unit noise."""
    moment = integrate.quad(lambda x: x**p * math.exp(-(x**2) / 2), 0, math.inf)[0]
    return (moment * math.sqrt(2 / math.pi)) ** (1 / p)


def test_the_optimum_is_designed_for_every_p():
    shown = compare("prefix:8", ["optimal", "tree"], p=(2, 4))
    assert set(shown.designs) == {2.0, 4.0}
    for p, made in shown.designs.items():
        row = next(row for row in shown.rows if (row.strategy, row.p) == ("optimal", p))
        assert row.error == pytest.approx(moment_root(p) * made.certificate.upper, rel=1e-9)
        # designed for this p: at the other one it is no better than the optimum there
        other = mechanism(made.strategy, parse_workload("prefix:8")).error(6 - p)
        best = moment_root(6 - p) * shown.designs[6 - p].certificate.lower
        assert other >= best * (1 - 1e-12)


def test_strategies_of_the_caller():
    mine = Strategy("mine", 3 * np.eye(5))
    shown = compare(np.tril(np.ones((5, 5))), [mine, "identity"], p=3)
    assert [row.strategy for row in shown.rows] == ["mine", "identity"]
    assert shown.rows[0].error == pytest.approx(shown.rows[1].error, rel=1e-12)
    assert shown.rows[0].sensitivity == 3


def test_rows_convert_to_the_documented_keys():
    row = compare("prefix:3", ["identity"]).rows[0]
    assert list(row.to_json()) == [
        "name",
        "p",
        "noise",
        "sensitivity",
        "scale",
        "error",
        "rmse",
        "max_std",
        "ratio",
    ]


def test_what_cannot_be_compared_is_refused_before_any_design(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("the design began before the arguments were checked")

    monkeypatch.setattr(pmldesign.comparison, "design", refuse)
    part = Strategy("part", np.eye(4)[:3])
    for strategies, options, error, words in [
        (["optimal", part], {}, InvalidInputError, "cannot answer row 3"),
        (["optimal", "oak"], {}, InvalidInputError, "strategy must be one of"),
        ([], {}, InvalidInputError, "nothing to compare"),
        (["optimal"], {"p": []}, InvalidInputError, "nothing to compare"),
        (["optimal"], {"p": [2, 1]}, InvalidInputError, "p must be in"),
        (["optimal"], {"guarantee": PML(2.4, 0.1)}, VacuousGuaranteeError, "nobody"),
        (["optimal"], {"neighbours": "both"}, InvalidInputError, "neighbours must be"),
    ]:
        with pytest.raises(error, match=words):
            compare("prefix:4", strategies, **options)
