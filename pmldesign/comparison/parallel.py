"""Independent pieces of work, one after the other or in several processes (joblib, an extra).

A process calls the same function with the same arguments, so results do not depend on the number
of processes, but for the rounding of a linear algebra library that uses another number of threads:
each process gets an equal share of the processors, unless OPENBLAS_NUM_THREADS or its like is set.

A process whose parent is gone, killed or not, ends by itself within PATIENCE seconds: it would hold
the streams and the shared memory of a command that nobody waits for.
"""

from __future__ import annotations

import operator
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from importlib.util import find_spec
from typing import TypeVar

from pmldesign.errors import InvalidInputError

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds between two looks at the parent; a look costs microseconds."""


def check_jobs(jobs: int) -> int:
    """The number of processes as an int.

    Raises:
        InvalidInputError: below 1, or above it without joblib.
    """
    try:
        count = operator.index(jobs)
    except TypeError:
        count = 0
    if count < 1:
        raise InvalidInputError(f"jobs must be a whole number of at least 1, got {jobs!r}")
    if count > 1 and find_spec("joblib") is None:
        raise InvalidInputError(
            f"jobs = {count} needs joblib; install it with: pip install 'pmldesign[jobs]', "
            "or leave jobs at 1"
        )
    return count


def run(tasks: Sequence[Callable[[], T]], *, jobs: int) -> Generator[T, None, None]:
    """The results in the order of the tasks, each as soon as it and those before it are done.

    Args:
        tasks: functions without arguments; for several jobs they and their results are pickled.
        jobs: number of processes, as from `check_jobs`; 1 stays in this one.
    """
    if jobs == 1 or len(tasks) < 2:
        yield from (task() for task in tasks)
        return
    from joblib import Parallel, delayed

    parent = os.getpid()
    # max_nbytes=None: no files in shared memory, which a killed process would leave
    results = Parallel(n_jobs=jobs, return_as="generator", max_nbytes=None)(
        delayed(_work)(task, parent) for task in tasks
    )
    try:
        yield from results
    finally:
        results.close()  # stops what is still running if the caller wants no more


def _work(task: Callable[[], T], parent: int) -> T:
    """A task in a process of its own, which is not to outlive its parent."""
    if not _watched:
        _watched.append(parent)
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    return task()


_watched: list[int] = []
"""The parent that this process looks at, if it is one that works for another."""


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os._exit(1)
