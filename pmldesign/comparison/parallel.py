"""Independent tasks: one after the other, in processes here, or on a cluster of Dask or Ray.

The scheduling is that of joblib, Dask or Ray (extras). A task is a function without arguments that
is called somewhere else, so results do not depend on the number of workers, but for the rounding of
a linear algebra library that uses another number of threads. Each process here gets an equal share
of the processors, unless OPENBLAS_NUM_THREADS or its like is set.

A worker that dies takes down every task that was under way with joblib. Those are tried again, each
alone: the one that kills its worker again is LOST, the others are not. Dask and Ray try a task on
several workers by themselves. Neither goes through joblib (1.6): its generators wait for ever for a
task that Dask gave up, and its backend of Ray gives results only when all are there.

A process whose parent is gone, killed or not, ends by itself within PATIENCE seconds: it would hold
the streams and the shared memory of a command that nobody waits for.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, TypeVar

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError, PmldesignError, require_extra

T = TypeVar("T")
Backend = Literal["processes", "dask", "ray"]
NEEDS = {"processes": ("joblib", "jobs"), "dask": ("distributed", "dask"), "ray": ("ray", "ray")}
"""For every backend the package and the extra that brings it."""

PATIENCE = 0.5
"""Seconds between two looks at the parent; a look costs microseconds."""
CONNECTION = 20
"""Seconds that the scheduler of a cluster has to answer in."""
RESTART = {"distributed.deploy.lost-worker-timeout": "1h"}
"""A worker that died may take so long to begin again; Dask gives it up after 15 s, which a busy
machine takes, and where none is left it waits for ever."""


class Lost(Enum):
    """What there is in place of a result."""

    LOST = "the worker died"


LOST: Final = Lost.LOST
"""What a task yields whose worker died twice."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Where tasks run.

    Attributes:
        jobs: how many at a time; None for one. A running cluster of Dask does as many as it can.
        backend: "processes" of this machine, "dask" or "ray".
        address: of a running cluster's scheduler; None starts one of `jobs` workers here.

    Raises:
        InvalidInputError: jobs below 1, an address without a cluster, or a package that is missing.
    """

    jobs: int | None = None
    backend: Backend = "processes"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None:
            object.__setattr__(self, "jobs", whole("jobs", self.jobs))
        if not isinstance(self.backend, str) or self.backend not in NEEDS:
            raise InvalidInputError(
                f"backend must be one of {', '.join(NEEDS)}, got {self.backend!r}"
            )
        if self.address is not None and self.backend == "processes":
            raise InvalidInputError("address is that of a cluster: give backend dask or ray too")
        package, extra = NEEDS[self.backend]
        if not self.here:
            asked = f"jobs = {self.jobs}" if extra == "jobs" else f"backend {self.backend}"
            require_extra(asked, package, extra, ", or leave it out")

    @property
    def here(self) -> bool:
        """Whether all is done in this process."""
        return self.backend == "processes" and (self.jobs or 1) == 1


def run(
    tasks: Sequence[Callable[[], T]], workers: Workers
) -> Generator[tuple[int, T | Lost], None, None]:
    """The results, each with the index of its task, as soon as they are there.

    Args:
        tasks: functions without arguments; they and their results are pickled.
        workers: where they run; here they stay in this process, in their order.

    Yields:
        Index and result; LOST for a task that kills its workers.

    Raises:
        PmldesignError: the cluster cannot be reached.
    """
    if workers.here or not tasks:
        yield from ((index, task()) for index, task in enumerate(tasks))
        return
    if workers.backend != "processes":
        yield from (_with_dask if workers.backend == "dask" else _with_ray)(tasks, workers)
        return
    yield from _with_processes(tasks, workers.jobs or 1)


def run_all(
    tasks: Sequence[Callable[[], T]], workers: Workers
) -> Generator[tuple[int, T], None, None]:
    """As `run`, where no result may be missing.

    Raises:
        PmldesignError: a task was lost, or as `run`.
    """
    with closing(run(tasks, workers)) as results:
        for index, result in results:
            if isinstance(result, Lost):
                raise PmldesignError(
                    "a process that did a part of the work was killed twice, perhaps because memory"
                    " ran out; take fewer jobs"
                )
            yield index, result


def _with_processes(
    tasks: Sequence[Callable[[], T]], jobs: int
) -> Generator[tuple[int, T | Lost], None, None]:
    from joblib import parallel_config
    from joblib.externals.loky.process_executor import BrokenProcessPool

    pending, width = dict(enumerate(tasks)), 2 * jobs
    # the same arguments every time: the next call finds the processes of this one
    with parallel_config("loky", n_jobs=jobs, initializer=_watch, initargs=(os.getpid(),)):
        while pending:
            try:
                for index, result in _together(pending, width):
                    del pending[index]
                    yield index, result
            except BrokenProcessPool:
                for index in [*pending][:width]:
                    alone: T | Lost = LOST
                    with suppress(BrokenProcessPool):
                        ((_, alone),) = _together({index: pending[index]}, width)
                    del pending[index]
                    yield index, alone


def _together(
    tasks: Mapping[int, Callable[[], T]], width: int
) -> Generator[tuple[int, T], None, None]:
    """The results of tasks, `width` of them under way at most."""
    from multiprocessing import resource_tracker

    from joblib import Parallel, delayed
    from joblib.externals.loky.backend import resource_tracker as another_tracker

    # a batch of one task: a worker that dies takes no finished results along
    # max_nbytes=None: no files in shared memory, which a killed process would leave
    parallel = Parallel(
        return_as="generator_unordered", batch_size=1, pre_dispatch=width, max_nbytes=None
    )
    # Ctrl-C of a terminal reaches every process: workers begin, and stay, with it blocked
    resource_tracker.ensure_running()  # both unblock it when they begin
    another_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        results = parallel(delayed(_numbered)(index, task) for index, task in [*tasks.items()])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with closing(results):  # stops what is still running if the caller wants no more
        yield from results


def _numbered(index: int, task: Callable[[], T]) -> tuple[int, T]:
    return index, task()


def _watch(parent: int) -> None:
    """Let this process not outlive its parent."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os._exit(1)


def _with_dask(
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
    from dask import config
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        stack.enter_context(config.set(RESTART))
        cluster: Any = workers.address
        if cluster is None:
            settings = {"threads_per_worker": 1, "dashboard_address": ":0"}
            cluster = stack.enter_context(LocalCluster(n_workers=workers.jobs or 1, **settings))
        with _reached(workers):
            client = Client(cluster, timeout=CONNECTION)
        yield stack.enter_context(client)


def _with_ray(
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
