"""Toeplitz baselines of long running sums, against the dense ones."""

import numpy as np
import pytest

from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP, PureDP
from pmldesign.strategies import Strategy, ToeplitzStrategy, baseline
from pmldesign.workloads import parse_workload


@pytest.mark.parametrize("name", ["identity", "workload", "square-root"])
@pytest.mark.parametrize("text", ["prefix:40", "decay:40,0.7"])
def test_the_same_as_its_matrix(name, text, monkeypatch):
    workload = parse_workload(text)
    monkeypatch.setattr("pmldesign.strategies.baselines.registry.WRITTEN_CELLS", 10)
    long = baseline(name, workload)
    assert isinstance(long, ToeplitzStrategy)
    plain = Strategy(name, long.matrix)
    if (name, text) != ("square-root", "decay:40,0.7"):
        monkeypatch.undo()
        assert long.matrix == pytest.approx(baseline(name, workload).matrix)
    assert long.variances(workload) == pytest.approx(plain.variances(workload))
    other = parse_workload("total:40")
    assert long.variances(other) == pytest.approx(plain.variances(other))
    for guarantee in (ApproxDP(1, 1e-6), PureDP(1)):
        ours = mechanism(long, workload, guarantee=guarantee)
        same = mechanism(plain, workload, guarantee=guarantee)
        assert ours.error(2) == pytest.approx(same.error(2))
        assert ours.max_std == pytest.approx(same.max_std)
    for norm in ("l1", "l2"):
        apart = plain.sensitivity_under("replace", norm)
        assert apart <= long.sensitivity_under("replace", norm) * (1 + 1e-12)


def test_square_root_of_a_million_steps():
    # sum f(k)^2 = (log n + gamma + log 16) / pi + o(1)
    long = baseline("square-root", parse_workload("prefix:1000000"))
    expected = (np.log(1e6) + np.euler_gamma + np.log(16)) / np.pi
    assert long.sensitivity**2 == pytest.approx(expected, rel=1e-6)


def test_other_queries_have_no_toeplitz_baseline(monkeypatch):
    monkeypatch.setattr("pmldesign.strategies.baselines.registry.WRITTEN_CELLS", 10)
    for text in ("histogram:40", "total:40", "window:40,3"):
        assert not isinstance(baseline("identity", parse_workload(text)), ToeplitzStrategy)
