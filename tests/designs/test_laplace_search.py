import math

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import Baselines, flow, laplace_design, optimize
from pmldesign.designs.laplace import candidates, course
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ApproxDP, PureDP
from pmldesign.strategies import baseline, identity, renamed
from pmldesign.workloads import as_workload, base, parse_workload
from pmldesign_solvers.norm import Status
from pmldesign_solvers.operators import Deadline, Work


@pytest.mark.parametrize(
    ("cells", "guarantee"), [(6, PureDP(1.0)), (6, PML(1.0, 0.1)), (600, PureDP(1.0))]
)
def test_ctrl_c_keeps_the_best_so_far(cells, guarantee):
    def interrupt(step):
        raise KeyboardInterrupt

    workload = parse_workload(f"prefix:{cells}")
    made = laplace_design(workload, guarantee, callback=interrupt)
    assert made.status is Status.INTERRUPTED
    # the identity is among the starts, and tents are better
    plain = mechanism(identity(cells), workload, guarantee=guarantee, noise="laplace")
    assert made.mechanism.error(2) <= plain.error(2) * (1 + 1e-6)


def test_a_product_workload_is_at_least_as_good_as_the_product_of_its_factors(monkeypatch):
    monkeypatch.setattr(course, "RESTARTS", 0)
    # l1 sensitivities multiply and so do the unit errors, but for one factor sqrt(2)
    guarantee = PureDP(0.5)
    errors = [
        laplace_design(name, guarantee).mechanism.error(2) for name in ("prefix:2", "histogram:2")
    ]
    made = laplace_design("prefix:2*histogram:2", guarantee)
    expected = errors[0] * errors[1] * 0.5 / math.sqrt(2)
    assert made.mechanism.error(2) <= expected * (1 + 1e-9)
    product = [start for start in made.starts if start.name == "product"]
    assert product[0].before == pytest.approx(expected, rel=1e-4)


def test_ctrl_c_during_the_search_for_a_factor():
    calls = []

    def interrupt(step):
        calls.append(step)
        if len(calls) == 1:
            raise KeyboardInterrupt

    workload, guarantee = parse_workload("prefix:5*prefix:4"), PureDP(1.0)
    made = laplace_design(workload, guarantee, callback=interrupt)
    assert made.status is Status.INTERRUPTED
    plain = mechanism(identity(20), workload, guarantee=guarantee, noise="laplace")
    assert made.mechanism.error(2) <= plain.error(2) * (1 + 1e-6)
    answers = made.mechanism.reconstruction() @ made.mechanism.strategy.matrix
    np.testing.assert_allclose(answers, workload.to_dense(), atol=1e-9)


def test_cells_that_are_hardly_measured_alone(monkeypatch):
    """The best strategy measures no cell by itself; its error was printed as 0."""
    monkeypatch.setattr(course, "RESTARTS", 1)
    queries = np.array([[4.14, 2.64], [0.375, 0.07], [0.11, 0.12], [0.017, 0.019]])
    noisy = laplace_design(queries, PureDP(1.0)).mechanism
    R = noisy.strategy.matrix
    total = np.trace(np.linalg.solve(R.T @ R, queries.T @ queries))
    assert noisy.error(2) == pytest.approx(noisy.scale * math.sqrt(2 * total), rel=1e-9)


def test_a_start_of_least_norm_has_half_of_the_time(monkeypatch, little_work):
    """All of it where Gaussian noise may be taken, for which it is the design itself."""
    limits = []
    solve = flow.solve

    def recorded(workload, p, options):
        limits.append(options.time_limit.left())
        return solve(workload, p, options)

    monkeypatch.setattr(flow, "solve", recorded)
    for guarantee in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
        pml.optimize("prefix:4", guarantee, time_limit=3e6)
    pml.optimize("prefix:4", PureDP(1.0), effort="quick")
    assert limits[0] <= 1.5e6 < limits[1] <= 3e6
    assert limits[2] is None


@pytest.mark.parametrize("few", [0, 256])
def test_candidates_are_compared_while_there_is_work_or_where_cells_are_few(monkeypatch, few):
    monkeypatch.setattr(course, "ALL_BASELINES", few)
    queries, names = parse_workload("prefix:8"), ["workload", "tree", "identity"]
    work, known = Work(1.0), Baselines(queries, pml.Neighbours.ADD_REMOVE)
    search = course.LaplaceSearch(queries, PureDP(1.0), 4.0, work, 0, 0.0, None, known)
    search._compare([baseline(name, queries) for name in names])
    assert [start.name for start in search.table] == (names if few else names[:1])
    assert work.spent > work.units


def test_no_candidate_but_the_first_is_compared_after_the_deadline():
    queries = parse_workload("prefix:8")
    work, known = Work(deadline=Deadline(0.0)), Baselines(queries, pml.Neighbours.ADD_REMOVE)
    search = course.LaplaceSearch(queries, PureDP(1.0), 2.0, work, 0, 0.0, None, known)
    search._compare([baseline(name, queries) for name in ("workload", "tree")])
    assert [start.name for start in search.table] == ["workload"]


def test_long_streams_with_several_participations_have_laplace_noise(monkeypatch, little_work):
    """What a search finds has no such noise without its matrix; the cells themselves do."""
    monkeypatch.setattr(base, "MAX_ENTRIES", 2**20)
    best = pml.optimize("prefix:4200", guarantee=PureDP(1.0), participation="2,every=21").best
    # all cells with noise of scale 2: the variance of the last sum is 8 n
    assert best.max_std <= math.sqrt(8 * 4200) * (1 + 1e-5)
    assert best.sensitivity >= 2


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_design_is_no_worse_than_the_start_of_the_caller(relation):
    guarantee = pml.PureDP(1, relation)
    queries = np.random.default_rng(5).integers(0, 2, (12, 7)).astype(float)
    asked = {"guarantee": guarantee, "noise": "laplace"}
    start = pml.optimize(queries, effort="quick", **asked).best
    for given in (start, start.strategy, start.strategy.matrix):
        again = pml.optimize(queries, effort="quick", start=given, **asked).best
        assert again.error(2) <= start.error(2) * (1 + 1e-9)


def test_the_search_begins_from_the_start_of_the_caller(monkeypatch):
    begun = []

    def descend(_search, candidates):
        begun.extend(candidate.name for candidate in candidates)
        return Status.COMPLETED

    monkeypatch.setattr(course.LaplaceSearch, "_descend", descend)
    queries = np.random.default_rng(6).standard_normal((12, 7))
    own = renamed(pml.strategy(np.random.default_rng(7).standard_normal((9, 7))), "mine")
    pml.optimize(queries, guarantee=pml.PureDP(1), effort="thorough", start=own)
    assert "mine" in begun


def test_a_wrong_start_is_refused_before_the_search(monkeypatch):
    monkeypatch.setattr(flow, "solve", lambda *_: pytest.fail("the design began"))
    for given, says in (
        (np.ones((1, 7)), "cannot answer"),
        (np.eye(4), "4 cells"),
        ("tree", "start must be a strategy, a design or a matrix, got 'tree'"),
        (3.5, "start: a strategy is"),
        (np.full((7, 7), np.nan), "start: "),
        (np.ma.masked_array(np.eye(7), mask=np.eye(7)), "start: .*masked"),
    ):
        for noise in ("auto", "laplace"):
            with pytest.raises(pml.InvalidInputError, match=says):
                pml.optimize(np.eye(7), guarantee=pml.ApproxDP(1, 1e-6), noise=noise, start=given)


@pytest.mark.parametrize(
    ("relation", "few", "units", "searched"),
    [
        ("replace", 7, 7, False),
        ("replace", 7, 20, True),
        ("add-remove", 7, 7, True),
        ("add-remove", 6, 7, False),
        ("add-remove", 6, 20, True),
    ],
)
def test_all_pairs_of_cells_have_to_be_within_the_work(monkeypatch, relation, few, units, searched):
    """They are 8 units; equal cells are one."""
    monkeypatch.setattr(course, "ALL_BASELINES", few)
    monkeypatch.setattr(course, "PAIRED", 8 / 5**3)
    queries = np.random.default_rng(8).standard_normal((12, 5))[:, [0, 0, 1, 2, 3, 4, 4]]
    asked, promise, work = as_workload(queries), PureDP(1.0, relation), Work(units)
    known = Baselines(asked, promise.neighbours)
    search = course.LaplaceSearch(asked, promise, 2.0, work, 0, 0.0, None, known)
    assert search._affords_pairs() is searched


@pytest.mark.parametrize(("cached", "rows"), [(500, 50**0.5), (100, 12**0.5 / 0.4 - 5)])
def test_rows_beside_many_cells_count_the_memory_that_they_pass_through(cached, rows, monkeypatch):
    """A quarter of 40: 0.2 k^2 = 10 in the cache, and 0.2 k^2 + 2 k = 10 beyond it."""
    constants = {"NOISE_WORK": 1e-3, "MEMORY_WORK": 1e-2, "START_WORK": 1e-9}
    constants["CACHED_CELLS"] = cached
    for name, value in constants.items():
        monkeypatch.setattr(candidates, name, value)
    most, afterwards = candidates._rows_for(200, Work(40.0))
    assert most == pytest.approx(rows)
    assert afterwards.left == pytest.approx(30.0)


def test_tents_on_very_many_cells_fit_into_memory():
    for n in (10**5, 10**7):
        assert candidates._rows_for(n, Work())[0] * n <= max(2**26, n)


@pytest.mark.full_work
@pytest.mark.parametrize(
    "guarantee",
    [pml.PureDP(1.0), pml.PureDP(1.0, "replace"), pml.PML(1.0, 1e-5)],
    ids=["add-remove", "replace", "pml"],
)
def test_few_different_cells_of_very_many_have_the_design_of_these(guarantee):
    """All pairs of 24,000 cells are never written out; under PML equal cells have much together."""
    distinct = np.array([[1.0, 0, 0, 1, 2], [0, 1, 0, 1, -1], [0, 0, 1, 1, 0]])
    queries = distinct[:, np.arange(24_000) % 5]
    few = guarantee
    if guarantee.pml:
        few = pml.PML(1.0, tuple(np.bincount(np.arange(24_000) % 5) * 1e-5))
    made = pml.optimize(queries, guarantee=guarantee, noise="laplace", effort="quick").best
    assert made.strategy.shape[1] == 24_000
    same = pml.mechanism(made.strategy.matrix[:, :5], distinct, guarantee=few, noise="laplace")
    assert made.error() == pytest.approx(same.error(), rel=1e-9)
    # by the rounding of a machine the searches end in other minima, of up to 0.15 % more
    expected = pml.optimize(distinct, guarantee=few, noise="laplace", effort="quick").best.error()
    assert made.error() == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("workload", ["histogram:6", "histogram:3*total:2", "marginals:3,4,ways=2"])
def test_nothing_is_searched_where_a_plain_strategy_is_proved_best(workload, monkeypatch):
    def search(*_arguments, **_options):
        raise AssertionError

    monkeypatch.setattr("pmldesign.designs.laplace.search.laplace_design", search)
    found = optimize(workload, PureDP(1.0), noise="laplace")
    least = math.sqrt(2 * parse_workload(workload).shape[0])
    assert found.best.error(2) == pytest.approx(least, rel=1e-9)
