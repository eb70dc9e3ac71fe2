"""What draws noise belongs to one process and is never copied; it takes one step at a time.

Noise that is drawn ahead, and the state of a generator, are there twice after a fork and in a copy.
Two answers to different data with the same noise differ by what the data differ by. So an object
knows the process that made it, refuses to work in another one, and refuses to be copied or pickled.
Threads wait for each other. A step that broke off (Ctrl-C, no memory) may have counted its input:
the object takes no further one.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, NoReturn

from pmldesign.errors import InvalidInputError

_forks = [0]
"""How many forks this process is away from the first one: numbers of processes come again."""


def _forked() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Turn:
    """What a step is taken in: `with turn`.

    Args:
        name: of what takes the steps.

    Attributes:
        begun: set by a step before its first change; a step that fails later, but with
            InvalidInputError, is the last one.
    """

    def __init__(self, name: str) -> None:
        self._name, self.begun = name, False
        self._process = os.getpid(), _forks[0]
        self._lock = threading.RLock()

    @property
    def own(self) -> bool:
        """Whether this is the process that it was made in."""
        return self._process == (os.getpid(), _forks[0])

    def __enter__(self) -> None:
        if not self.own:
            raise InvalidInputError(
                f"a {self._name} was made in another process, which would answer with the same "
                "noise after a fork; make one in the process that takes the steps"
            )
        self._lock.acquire()
        if self.begun:
            self._lock.release()
            raise InvalidInputError(
                f"a step of this {self._name} broke off, and its input may count already; no "
                "further one is taken: go on from a saved state, or begin again"
            )

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, InvalidInputError):
            self.begun = False
        self._lock.release()


class Owned:
    """Base of what draws noise, with its `Turn`."""

    def __init__(self) -> None:
        self._turn = Turn(type(self).__name__)

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        name = type(self).__name__
        raise InvalidInputError(
            f"a {name} cannot be copied or pickled: both would answer with the same noise; make "
            "one in the process that takes the steps"
        )
