import pytest

from pmldesign.guarantees import PML, PureDP
from pmldesign.laplace_design import laplace_design
from pmldesign.mechanism import mechanism
from pmldesign.strategies import identity
from pmldesign.workloads import parse_workload
from pmldesign_solvers.l1_solution import L1Status


@pytest.mark.parametrize("guarantee", [PureDP(1.0), PML(1.0, 0.1)])
def test_ctrl_c_keeps_the_best_so_far(guarantee):
    def interrupt(step):
        raise KeyboardInterrupt

    workload = parse_workload("prefix:6")
    made = laplace_design(workload, guarantee, callback=interrupt)
    assert made.status is L1Status.INTERRUPTED
    # the identity is among the starts
    plain = mechanism(identity(6), workload, guarantee=guarantee, noise="laplace")
    assert made.mechanism.error(2) <= plain.error(2) * (1 + 1e-6)
