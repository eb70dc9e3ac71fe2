"""Tasks in processes here and on a cluster of Dask: all results, whoever dies."""

import logging
from functools import partial

import pytest
from jobs import blocked, die, square

from pmldesign.comparison import LOST, Workers, parallel, run, run_all
from pmldesign.errors import InvalidInputError, PmldesignError


@pytest.fixture(scope="module")
def cluster():
    import dask  # here, as every process of the tests below imports this module
    import distributed

    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        dask.config.set(parallel.RESTART),
        distributed.LocalCluster(**settings, silence_logs=logging.CRITICAL) as local,
    ):
        yield local.scheduler_address


@pytest.fixture(params=["here", "loky", "dask"])
def workers(request):
    if request.param == "dask":
        return Workers(backend="dask", address=request.getfixturevalue("cluster"))
    return Workers({"here": 1, "loky": 2}[request.param])


def test_every_task_is_done_once(workers):
    tasks = [partial(square, number) for number in range(20)]
    results = dict(run([*tasks, blocked], workers))
    if workers.backend == "loky":  # Ctrl-C of a terminal is for the parent alone
        assert results[20] is (workers.jobs > 1)
        assert not blocked()
    del results[20]
    assert results == {number: number**2 for number in range(20)}
    assert [*run([], workers)] == []


def test_an_error_of_a_task_is_raised(workers):
    with pytest.raises(ZeroDivisionError):
        list(run([partial(square, 1), partial(divmod, 1, 0)], workers))


def test_a_worker_that_dies_loses_its_task_only():
    tasks = [partial(square, number) for number in range(6)]
    tasks.insert(2, partial(die, None))
    results = dict(run(tasks, Workers(2)))
    assert results.pop(2) is LOST
    assert sorted(results.values()) == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("workers", ["loky", "dask"], indirect=True)
def test_a_task_whose_worker_died_once_is_done_again(workers, tmp_path):
    tasks = [partial(square, 3), partial(die, tmp_path / "died"), partial(square, 4)]
    assert dict(run(tasks, workers)) == {0: 9, 1: "lived", 2: 16}


def test_a_worker_that_is_slow_to_begin_again_is_waited_for(tmp_path):
    """As on a busy machine: Dask gave up the only one, and the results never came."""
    import dask

    tasks = [partial(square, 3), partial(die, tmp_path / "died"), partial(square, 4)]
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}):
        assert dict(run(tasks, Workers(1, backend="dask"))) == {0: 9, 1: "lived", 2: 16}


def test_a_lost_task_is_an_error_where_all_are_needed(monkeypatch):
    monkeypatch.setattr(parallel, "run", lambda tasks, workers: (pair for pair in [(0, LOST)]))
    with pytest.raises(PmldesignError, match="killed twice"):
        list(run_all([partial(square, 2)], Workers(2)))


def test_what_workers_cannot_be_is_refused(monkeypatch):
    with pytest.raises(InvalidInputError, match="address is that of a cluster"):
        Workers(address="tcp://127.0.0.1:1")
    with pytest.raises(InvalidInputError, match="backend must be one of loky, dask, ray"):
        Workers(backend="slurm")
    monkeypatch.setattr("pmldesign.errors.find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match=r"needs ray; .*pip install '\.\[ray\]'"):
        Workers(backend="ray")


def test_a_cluster_that_is_not_there_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr("pmldesign.comparison.parallel.CONNECTION", 0.2)
    with pytest.raises(PmldesignError, match=r"no dask cluster at 'tcp://127.0.0.1:9'"):
        list(run([partial(square, 1)], Workers(backend="dask", address="tcp://127.0.0.1:9")))
