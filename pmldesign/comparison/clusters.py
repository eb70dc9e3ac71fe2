"""Tasks on a cluster of Dask or Ray, which try a task on several workers by themselves.

Neither goes through joblib (1.6): its generators wait for ever for a task that Dask gave up, and
its backend of Ray gives results only when all are there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from pmldesign.comparison.workers import LOST, Lost, Workers
from pmldesign.errors import PmldesignError

T = TypeVar("T")

CONNECTION = 20
"""Seconds that the scheduler of a cluster has to answer in."""


def with_dask(
    tasks: Sequence[Callable[[], T]], workers: Workers
) -> Generator[tuple[int, T | Lost], None, None]:
    """The results of tasks on Dask, each with its index, as soon as they are there."""
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    with _dask(workers) as client:
        futures = {client.submit(task, pure=False): index for index, task in enumerate(tasks)}
        for future in as_completed([*futures]):
            index = futures.pop(future)  # the cluster forgets the result with the last reference
            try:
                result = future.result()
            except KilledWorker:
                result = LOST
            yield index, result


@contextmanager
def _dask(workers: Workers) -> Iterator[Any]:
    """A client of the cluster, and the cluster itself where there is none."""
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        cluster: Any = workers.address
        if cluster is None:
            settings = {"threads_per_worker": 1, "dashboard_address": ":0"}
            cluster = stack.enter_context(LocalCluster(n_workers=workers.jobs or 1, **settings))
        with _reached(workers):
            client = Client(cluster, timeout=CONNECTION)
        yield stack.enter_context(client)


def with_ray(
    tasks: Sequence[Callable[[], T]], workers: Workers
) -> Generator[tuple[int, T | Lost], None, None]:
    """The results of tasks on Ray, each with its index, as soon as they are there."""
    import ray
    from ray.exceptions import WorkerCrashedError

    settings: dict[str, Any] = {"address": workers.address or "local", "log_to_driver": False}
    if workers.address is None:
        settings |= {"num_cpus": workers.jobs or 1, "include_dashboard": False}
    with _reached(workers):
        ray.init(**settings)
    try:
        remote = ray.remote(_call)
        futures = {remote.remote(task): index for index, task in enumerate(tasks)}
        while futures:
            (future,), _ = ray.wait([*futures], num_returns=1)
            index = futures.pop(future)
            try:
                result = ray.get(future)
            except WorkerCrashedError:
                result = LOST
            yield index, result
    finally:
        ray.shutdown()


def _call(task: Callable[[], T]) -> T:
    return task()


@contextmanager
def _reached(workers: Workers) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # a timeout is an OSError
        text = " ".join(str(error).split())
        raise PmldesignError(
            f"no {workers.backend} cluster at {workers.address!r}: {text}; start one, or give the"
            " address that its scheduler prints"
        ) from None
