"""Independent tasks: one after the other, in processes here, or on a cluster of Dask or Ray.

The scheduling is that of joblib, Dask or Ray (extras). A task is a function without arguments that
is called somewhere else, so results do not depend on the number of workers, but for the rounding of
a linear algebra library that uses another number of threads. Each process here gets an equal share
of the processors, unless OPENBLAS_NUM_THREADS or its like is set.

A worker that dies takes down every task that was under way with joblib. Those are tried again, each
alone: the one that kills its worker again is LOST, the others are not. Dask and Ray try a task on
several workers by themselves.

A process whose parent is gone, killed or not, ends by itself within PATIENCE seconds: it would hold
the streams and the shared memory of a command that nobody waits for.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TypeVar

from pmldesign.comparison.clusters import with_dask, with_ray
from pmldesign.comparison.workers import LOST, Lost, Workers
from pmldesign.errors import PmldesignError

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds between two looks at the parent; a look costs microseconds."""


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
        yield from (with_dask if workers.backend == "dask" else with_ray)(tasks, workers)
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
    with parallel_config("loky", n_jobs=jobs, initializer=partial(_watch, os.getpid())):
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
    from multiprocessing.resource_tracker import ensure_running

    from joblib import Parallel, delayed

    # a batch of one task: a worker that dies takes no finished results along
    # max_nbytes=None: no files in shared memory, which a killed process would leave
    parallel = Parallel(
        return_as="generator_unordered", batch_size=1, pre_dispatch=width, max_nbytes=None
    )
    # Ctrl-C of a terminal reaches every process: workers begin, and stay, with it blocked
    ensure_running()  # which unblocks it
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
