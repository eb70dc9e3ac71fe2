"""How the process of a command begins and ends: streams that are closed or full, and signals.

Signals become exceptions, so that half-written files and other processes are removed on the way
out: Ctrl-C a KeyboardInterrupt, which solvers answer with what they have, and TERM and HUP an
`Ended`, which gives exit code 128 + the number of the signal. What cannot be written to standard
output is an error of its own (exit code 6); what cannot be written to standard error is lost, and
changes nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Any

import click

from pmldesign.cli.terminal.text import terminal_width, wrapped

INTERRUPTED = "interrupted before there was anything to show"


class Ended(BaseException):
    """The process was asked to end.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Interrupts:
    """Whether Ctrl-C was pressed; while a library is imported it ends the process at once."""

    seen = False
    importing = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """The handler of Ctrl-C: a library may turn the exception into one of its own."""
        self.seen = True
        if self.importing:
            os.write(2, f"error: {INTERRUPTED}\n".encode())
            os._exit(1)
        raise KeyboardInterrupt


_interrupts = _Interrupts()


def interrupted() -> bool:
    """Whether Ctrl-C was pressed since the command began."""
    return _interrupts.seen


@contextmanager
def importing() -> Iterator[None]:
    """Imports that Ctrl-C cannot leave half done."""
    _interrupts.importing = signal.getsignal(signal.SIGINT) == _interrupts.handle
    try:
        yield
    finally:
        _interrupts.importing = False


@contextmanager
def signals() -> Iterator[None]:
    """Ctrl-C, TERM and HUP as exceptions, unless somebody handles or ignores them already."""
    _interrupts.seen = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    if hasattr(signal, "SIGHUP"):
        usual[signal.SIGHUP] = signal.SIG_DFL
    taken = {number: now for number, now in usual.items() if signal.getsignal(number) == now}
    for number in taken:
        signal.signal(number, _interrupts.handle if number is signal.SIGINT else _end)
    try:
        yield
    except Ended as ended:
        sys.exit(128 + ended.number)  # what a shell calls it; joblib has to clean up at the exit
    finally:
        for number, before in taken.items():
            signal.signal(number, before)


def _end(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough, and the way out takes its time
    raise Ended(number)


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
