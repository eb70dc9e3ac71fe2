"""One thread for linear algebra in searches, which are thousands of small products.

NumPy and SciPy bring a library of their own each, and the idle threads of the one wait busily while
the other one works: on two cores a search took seven times as long as with one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def single() -> Iterator[None]:
    """A context, or a decorator of functions, in which linear algebra has one thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
