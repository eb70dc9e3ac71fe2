"""How the process of a command begins and ends: streams that are closed or full, and signals.

Signals become exceptions, so that half-written files and other processes are removed on the way
out: Ctrl-C a KeyboardInterrupt, which solvers answer with what they have, and TERM and HUP an
`Ended`, which gives exit code 128 + the number of the signal. What cannot be written to standard
output is an error of its own (exit code 6); what cannot be written to standard error is lost, and
changes nothing. Long lines wrap at words; where there is no terminal nothing is wrapped.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Any

import click

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
INTERRUPTED = "interrupted before it was done"
PATIENCE = 1.0
"""Seconds of the processor that an import may take after a signal."""


class Ended(BaseException):
    """The process was asked to end.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """The handler of signals."""

    interrupted = False
    importing = False
    since = math.inf
    """Processor time when the first signal came in an import."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise what the signal stands for, as soon as the exception is not swallowed or altered.

        While a command is imported nothing is open yet, and the process ends at once. So it does
        in another import that goes on: files are never open in one.
        """
        swallowed = _swallows(frame)
        self.since = min(self.since, time.process_time()) if swallowed else math.inf
        if self.importing or time.process_time() > self.since + PATIENCE:
            if number == signal.SIGINT:
                os.write(2, f"error: {INTERRUPTED}\n".encode())
            os._exit(1 if number == signal.SIGINT else 128 + number)
        elif swallowed:
            main = threading.main_thread().ident  # whose waiting for input it has to end
            again = threading.Timer(0.02, signal.pthread_kill, [main, number])
            again.daemon = True
            again.start()
        elif number == signal.SIGINT:
            self.interrupted = True
            raise KeyboardInterrupt
        else:
            signal.signal(number, signal.SIG_IGN)  # once is enough, and the way out takes its time
            raise Ended(number)


_signals = _Signals()


def _swallows(frame: FrameType | None) -> bool:
    """Whether this is in an import, where libraries catch anything, or in a finalizer."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def importing() -> Iterator[None]:
    """The import of a command."""
    _signals.importing = signal.getsignal(signal.SIGTERM) == _signals.handle
    try:
        yield
    finally:
        _signals.importing = False


def interrupted() -> bool:
    """Whether Ctrl-C was pressed since the command began; a library may turn it into an error."""
    return _signals.interrupted


@contextmanager
def signals() -> Iterator[None]:
    """Ctrl-C, TERM and HUP as exceptions, unless somebody handles or ignores them already."""
    _signals.interrupted, _signals.since = False, math.inf
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    handled = {signal.Signals[name] for name in NAMES if hasattr(signal, name)}
    taken = {number: signal.getsignal(number) for number in handled}
    taken = {number: before for number, before in taken.items() if before in usual}
    for number in taken:
        signal.signal(number, _signals.handle)
    try:
        yield
    except Ended as ended:
        sys.exit(128 + ended.number)  # what a shell calls it; joblib has to clean up at the exit
    finally:
        for number, before in taken.items():
            signal.signal(number, before)


def prepare_streams() -> None:
    """Keep the numbers of closed streams from files, and make every name printable."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes that number; what is written to it is refused
            if number:
                setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def terminal_width(stream: IO[str]) -> int | None:
    """Columns of the terminal that the stream is; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(text: str, width: int | None, *, hanging: int = 0) -> str:
    """The text in lines of this width, broken at spaces only, all but the first indented."""
    if width is None or len(text) <= width:
        return text
    return textwrap.fill(
        text,
        max(width, hanging + 1),
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def complain(text: str) -> None:
    """A line on standard error, if anybody can read it."""
    try:
        click.echo(wrapped(text, terminal_width(sys.stderr)), err=True)
    except OSError:
        _silence(sys.stderr)


def fail(text: str, code: int) -> Any:
    """End with one line on standard error."""
    complain(f"error: {text}")
    sys.exit(code)


def refuse_output(error: OSError) -> Any:
    """End, as standard output takes no more."""
    _silence(sys.stdout)
    return fail(f"cannot write to standard output: {error.strerror or error}", 6)


def _silence(stream: IO[str] | None) -> None:
    """Let what a stream still holds go nowhere, or Python complains when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        number = os.open(os.devnull, os.O_WRONLY)
        os.dup2(number, stream.fileno())  # type: ignore[union-attr]
        os.close(number)
