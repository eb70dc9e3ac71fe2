"""The process of a command: how it begins, which command it is, and how it ends.

Signals become exceptions, so that half-written files and other processes are removed on the way
out: Ctrl-C a KeyboardInterrupt, which solvers answer with what they have, and TERM and HUP an
`Ended`, which gives exit code 128 + the number of the signal. What cannot be written to standard
output is an error of its own (exit code 6); what cannot be written to standard error is lost, and
changes nothing. Long lines wrap at words; where there is no terminal nothing is wrapped.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from types import FrameType
from typing import IO, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from pmldesign.cli import COMMANDS
from pmldesign.errors import NotConvergedError, PmldesignError, printable

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
INTERRUPTED = "interrupted before it was done"
UNFINISHED = "interrupted: what is shown or written holds, but the work was not finished"
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

    interrupted = shown = False
    importing = False
    hook = staticmethod(sys.unraisablehook)
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
            signal.signal(number, lambda *_: None)  # pressed again it is not said again
            if number == signal.SIGINT:
                with suppress(OSError):  # nobody reads it
                    os.write(2, f"error: {INTERRUPTED}\n".encode())
            os._exit(1 if number == signal.SIGINT else 128 + number)
        elif swallowed:
            _again(number)
        elif number == signal.SIGINT:
            self.interrupted = True
            raise KeyboardInterrupt
        else:
            signal.signal(number, signal.SIG_IGN)  # once is enough, and the way out takes its time
            raise Ended(number)

    def lost(self, ignored: Any) -> None:
        """What Python does with an exception that it cannot raise, as where a generator ends."""
        error = ignored.exc_value
        if isinstance(error, Ended):
            signal.signal(error.number, self.handle)
            _again(error.number)
        elif isinstance(error, KeyboardInterrupt) and self.interrupted:
            _again(signal.SIGINT)
        else:
            self.hook(ignored)


_signals = _Signals()


def _again(number: int) -> None:
    """Send a signal once more, to the thread whose waiting for input it has to end."""
    timer = threading.Timer(0.02, signal.pthread_kill, [threading.main_thread().ident, number])
    timer.daemon = True
    timer.start()


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
    _signals.interrupted = _signals.shown = False
    _signals.since = math.inf
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    handled = {signal.Signals[name] for name in NAMES if hasattr(signal, name)}
    taken = {number: signal.getsignal(number) for number in handled}
    taken = {number: before for number, before in taken.items() if before in usual}
    for number in taken:
        signal.signal(number, _signals.handle)
    _signals.hook, sys.unraisablehook = sys.unraisablehook, _signals.lost
    try:
        yield
    except Ended as ended:
        sys.exit(128 + ended.number)  # what a shell calls it; joblib has to clean up at the exit
    finally:
        for number, before in taken.items():
            signal.signal(number, before)
        sys.unraisablehook = _signals.hook


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


def show(text: str = "") -> None:
    """A line of the result on standard output."""
    _signals.shown = True
    click.echo(text)


def complain(text: str) -> None:
    """A line on standard error."""
    to_errors(wrapped(text, terminal_width(sys.stderr)) + "\n")


def to_errors(text: str) -> None:
    """Text on standard error, if anybody can read it."""
    try:
        click.echo(text, err=True, nl=False)
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


class _Commands(click.Group):
    """Finds a command in the module of its name; errors become one line and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command, whatever its streams are, and end as it did."""
        with signals():
            prepare_streams()
            try:
                return super().main(*arguments, **options)
            except OSError as error:
                return refuse_output(error)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        with importing():
            command: click.Command = import_module(f"pmldesign.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}{_nearest(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands, without importing them, and the options of the group itself."""
        commands = [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        from pmldesign.files.atomic import written

        written.clear()
        try:
            result = super().invoke(ctx)
            if interrupted():
                raise NotConvergedError(_unfinished(written))
            return result
        except PmldesignError as error:
            complain(f"{error.opening}: {printable(str(error))}")
            ctx.exit(error.exit_code)
        except MemoryError:
            complain("error: this does not fit into memory; take a smaller workload")
            ctx.exit(1)
        except click.UsageError as error:
            _in_one_line(error, ctx)
        except (click.exceptions.Exit, click.Abort, OSError):
            raise
        except (KeyboardInterrupt, Exception):
            if not interrupted():
                raise
            result = _signals.shown or written
            complain(f"error: {_unfinished(written) if result else INTERRUPTED}")
            ctx.exit(3 if result else 1)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            complain(ctx.get_help())
            ctx.exit(2)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _in_one_line(error, ctx)


def _unfinished(written: Iterable[object]) -> str:
    """What Ctrl-C has left, with the names of files, of which nothing else may have told."""
    names = ", ".join(printable(str(path)) for path in written)
    return f"{UNFINISHED}; written: {names}" if names else UNFINISHED


def _in_one_line(error: click.UsageError, ctx: click.Context) -> NoReturn:
    path = " ".join(filter(None, [(error.ctx or ctx).command_path, _begun(error, ctx)]))
    if isinstance(error, click.NoSuchOption):
        alike = _alike(error.option_name, error.possibilities or ())
        error = click.NoSuchOption(error.option_name, possibilities=alike, ctx=error.ctx)
    message = " ".join(error.format_message().rstrip(".").split()) + _hint(error)
    complain(f"error: {printable(message)}; see {path} --help")
    ctx.exit(error.exit_code)


def _begun(error: click.UsageError, ctx: click.Context) -> str | None:
    """The command whose options were read, where the error does not know of it."""
    return None if error.ctx else ctx.invoked_subcommand


def _alike(option: str, others: Iterable[str]) -> list[str]:
    """The options that are like a mistyped one beyond their dashes."""
    plain = {other.lstrip("-"): other for other in others}
    return [plain[name] for name in get_close_matches(option.lstrip("-"), plain)]


def _hint(error: click.UsageError) -> str:
    """The allowed value that is most like a mistyped one."""
    kind = getattr(getattr(error, "param", None), "type", None)
    given = re.match("'([^']*)' is not one of", error.message)
    return _nearest(given[1], kind.choices) if isinstance(kind, click.Choice) and given else ""


def _nearest(word: str, words: Iterable[str]) -> str:
    """A hint for a mistyped word; empty where none is like it."""
    by_lower = {word.lower(): word for word in words}
    close = get_close_matches(word.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def _version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from importlib import metadata

        click.echo(f"pmldesign {metadata.version('pmldesign')}")
        ctx.exit()


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=(
        "Exit codes: 0 done, 1 stopped with nothing to show, 2 an argument is wrong or needs an"
        " extra that is missing, 3 a limit or Ctrl-C came before the end (what was found is shown"
        " and written), 4 the guarantee protects nobody, 5 no mechanism can do this, 6 a file or"
        " output cannot be read or written, 7 a claim of a file does not hold, 8 one was not"
        " checked."
    ),
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Private mechanisms for linear queries by optimization, with certified bounds."""
