"""Independent tasks: one after the other, in processes here, or on a cluster of Dask or Ray.

A task is a function without arguments that is called somewhere else, so results do not depend on
the number of workers, except for the rounding of a linear algebra library that uses another number
of threads. Each process here gets an equal share of the processors, unless OPENBLAS_NUM_THREADS or
its like is set.

joblib's loky, Dask and Ray all give futures of the standard library, and one loop takes them as
they are done. A worker that dies may take others down: loky gives up every task that is under way.
All of these are tried again, each alone. The one whose worker dies again is LOST, the others are
not. Dask and Ray try a task on several workers before they give it up. (joblib.Parallel, version
1.6, waits for ever for a task that Dask gave up, and has Ray return all results at the end.)

A process whose parent is gone ends by itself within PATIENCE seconds: it would hold the streams of
a command that has ended.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any, Final, Literal, NamedTuple, TypeVar

from pmldesign.arguments import whole
from pmldesign.errors import InvalidInputError, PmldesignError, require_extra

T = TypeVar("T")
Backend = Literal["loky", "dask", "ray"]
NEEDS = {"loky": ("joblib", "jobs"), "dask": ("distributed", "dask"), "ray": ("ray", "ray")}
"""For every backend the package and the extra that brings it."""

PATIENCE = 0.5
"""Seconds between two looks at the parent; a look costs microseconds."""
CONNECTION = 20
"""Seconds that the scheduler of a cluster has to answer in."""
RESTART = {"distributed.deploy.lost-worker-timeout": "1h"}
"""A worker that died may take so long to begin again; Dask gives it up after 15 s, which a busy
machine takes, and waits for ever if no other is left."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Lost(Enum):
    """A placeholder for a missing result."""

    LOST = "the worker died"


LOST: Final = Lost.LOST
"""What a task yields whose worker died twice."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Where tasks run.

    Attributes:
        jobs: how many at a time; None for one. A running cluster does as many as it can.
        backend: "loky" for processes of this machine, "dask" or "ray".
        address: of a running cluster's scheduler; None starts one of `jobs` workers here.

    Raises:
        InvalidInputError: jobs below 1, an address without a cluster, or a package that is missing.
    """

    jobs: int | None = None
    backend: Backend = "loky"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None:
            object.__setattr__(self, "jobs", whole("jobs", self.jobs))
        if not isinstance(self.backend, str) or self.backend not in NEEDS:
            raise InvalidInputError(
                f"backend must be one of {', '.join(NEEDS)}, got {self.backend!r}"
            )
        if self.address is not None and self.backend == "loky":
            raise InvalidInputError(
                "address is that of a cluster: pass `backend='dask'` or 'ray' too"
            )
        package, extra = NEEDS[self.backend]
        if not self.here:
            asked = f"jobs = {self.jobs}" if extra == "jobs" else f"backend {self.backend}"
            require_extra(asked, package, extra, ", or leave it out")

    @property
    def here(self) -> bool:
        """Whether all is done in this process."""
        return self.backend == "loky" and self.count == 1

    @property
    def count(self) -> int:
        """How many workers are started."""
        return self.jobs or 1


class Pool(NamedTuple):
    """Workers that are there.

    Attributes:
        submit: begins a task.
        deaths: the errors of futures whose worker died.
        width: how many tasks are under way at most.
    """

    submit: Callable[[Callable[[], Any]], Future[Any]]
    deaths: tuple[type[Exception], ...]
    width: float


def run(
    tasks: Sequence[Callable[[], T]], workers: Workers
) -> Generator[tuple[int, T | Lost], None, None]:
    """The results, each with the index of its task, as soon as they are there.

    Args:
        tasks: functions without arguments; they and their results are pickled.
        workers: processes or a cluster; without either, tasks run in this process, in order.

    Yields:
        Index and result; LOST for a task that kills its workers.

    Raises:
        PmldesignError: the cluster cannot be reached.
    """
    if workers.here or not tasks:
        yield from ((index, task()) for index, task in enumerate(tasks))
        return
    with {"loky": _loky, "dask": _dask, "ray": _ray}[workers.backend](workers) as pool:
        yield from _results(tasks, pool)


def _results(
    tasks: Sequence[Callable[[], T]], pool: Pool
) -> Generator[tuple[int, T | Lost], None, None]:
    waiting, suspects = deque(range(len(tasks))), deque[int]()
    under_way: dict[Future[T], tuple[int, bool]] = {}
    ready: SimpleQueue[Future[T]] = SimpleQueue()
    while waiting or suspects or under_way:
        alone = bool(suspects)  # nothing else is begun until these have been tried
        source, width = (suspects, 1) if alone else (waiting, pool.width)
        while source and len(under_way) < width:
            try:
                future = pool.submit(tasks[source[0]])
            except pool.deaths:  # loky had not noticed the last one
                continue
            under_way[future] = source.popleft(), alone
            future.add_done_callback(ready.put)
        future = ready.get()
        index, alone = under_way.pop(future)
        if not isinstance(future.exception(), pool.deaths):
            yield index, future.result()
        elif alone:
            yield index, LOST
        else:
            suspects.append(index)


def run_all(
    tasks: Sequence[Callable[[], T]], workers: Workers
) -> Generator[tuple[int, T], None, None]:
    """As `run`, if no result may be missing.

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


@contextmanager
def _loky(workers: Workers) -> Iterator[Pool]:
    """Processes here; the next call with as many finds those of this one."""
    from joblib.externals.loky import cpu_count, get_reusable_executor

    share = str(max(1, cpu_count() // workers.count))
    settings = {
        "max_workers": workers.count,
        "initializer": _watch,
        "initargs": (os.getpid(),),
        "env": {name: os.environ.get(name, share) for name in THREADS},
    }

    def submit(task: Callable[[], T]) -> Future[T]:
        with _without_interrupts():
            future: Future[T] = get_reusable_executor(**settings).submit(task)
            return future

    try:
        yield Pool(submit, (BrokenExecutor,), 2 * workers.count)
    except BaseException:  # running tasks are abandoned
        get_reusable_executor(**settings).shutdown(kill_workers=True)
        raise


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes and threads that begin inside never get Ctrl-C, which a terminal sends to all."""
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as another_tracker

    resource_tracker.ensure_running()  # both unblock it when they begin
    another_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(parent: int) -> None:
    """Let this process not outlive its parent."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os._exit(1)


@contextmanager
def _dask(workers: Workers) -> Iterator[Pool]:
    """A cluster of Dask, which is started if none is running."""
    from dask import config
    from distributed import Client, LocalCluster
    from distributed.scheduler import KilledWorker

    with ExitStack() as stack:
        stack.enter_context(config.set(RESTART))
        cluster: Any = workers.address
        if cluster is None:
            settings = {"threads_per_worker": 1, "dashboard_address": ":0"}
            cluster = stack.enter_context(LocalCluster(n_workers=workers.count, **settings))
        with _reached(workers):
            client = stack.enter_context(Client(cluster, timeout=CONNECTION))
        yield Pool(client.get_executor(pure=False).submit, (KilledWorker,), math.inf)


@contextmanager
def _ray(workers: Workers) -> Iterator[Pool]:
    """A cluster of Ray, which is started if none is running."""
    import ray
    from ray.exceptions import WorkerCrashedError

    settings: dict[str, Any] = {"address": workers.address or "local", "log_to_driver": False}
    if workers.address is None:
        settings |= {"num_cpus": workers.count, "include_dashboard": False}
    with _reached(workers):
        ray.init(**settings)
    try:
        remote = ray.remote(_call)
        yield Pool(lambda task: remote.remote(task).future(), (WorkerCrashedError,), math.inf)
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
