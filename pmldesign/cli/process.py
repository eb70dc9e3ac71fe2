"""The process of a command: which command it is, and how it ends.

click reads the arguments. An error becomes one line on standard error and an exit code. Ctrl-C is a
KeyboardInterrupt, upon which solvers return their best result so far; TERM and HUP have their usual
effect. A failure to write to standard output is an error, and the message names the files that were
written before; text that cannot be written to standard error is lost, without other effects. Long
lines wrap at words only on a terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from types import FrameType
from typing import IO, Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import CompletionItem

from pmldesign.cli import COMMANDS, GROUPS
from pmldesign.errors import NotConvergedError, PmldesignError, printable

INTERRUPTED = "interrupted before it was done"
UNFINISHED = "interrupted: what is shown or written holds, but the work was not finished"
STOPPED = 3
"""Exit code of a command that ended early but showed or wrote a result."""


class _State:
    """Of the command that runs: whether Ctrl-C was pressed, and whether a result was shown."""

    interrupted = shown = False


def interrupted() -> bool:
    """Whether Ctrl-C was pressed since the command began; a library may turn it into an error."""
    return _State.interrupted


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _State.interrupted = True
    raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[None]:
    """Notice Ctrl-C, unless it is handled or ignored already."""
    _State.interrupted = _State.shown = False
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def prepare_streams() -> None:
    """Keep the numbers of closed streams from files, and make every name printable."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes that number; refuses writing
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


def show(text: str = "", *, nl: bool = True) -> None:
    """A line of the result on standard output, or a part of it."""
    _State.shown = True
    click.echo(text, nl=nl)


def complain(text: str) -> None:
    """A line on standard error."""
    to_errors(wrapped(text, terminal_width(sys.stderr)) + "\n")


def to_errors(text: str) -> None:
    """Text on standard error, if anybody can read it."""
    try:
        click.echo(text, err=True, nl=False)
    except OSError:
        _silence(sys.stderr)


def fail(text: str, code: int) -> NoReturn:
    """End with one line on standard error."""
    complain(f"error: {text}")
    sys.exit(code)


def refuse_output(error: OSError) -> NoReturn:
    """End, as standard output takes no more; the message names the files that are complete."""
    from pmldesign.files.atomic import written

    _silence(sys.stdout)
    reason = f"cannot write to standard output: {error.strerror or error}"
    fail(f"{reason}{_names(written)}", STOPPED if written else 6)


def _names(written: Iterable[object]) -> str:
    names = ", ".join(printable(str(path)) for path in written)
    return f"; written: {names}" if names else ""


def _silence(stream: IO[str] | None) -> None:
    """Discard the buffered output of a stream, or Python complains when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        number = os.open(os.devnull, os.O_WRONLY)
        os.dup2(number, stream.fileno())  # type: ignore[union-attr]
        os.close(number)


class _Commands(click.Group):
    """Finds a command in the module of its name; errors become one line and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command, whatever its streams are, and end as it did."""
        with interrupts():
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
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        from pmldesign.files.atomic import written

        written.clear()
        try:
            result = super().invoke(ctx)
            if interrupted():
                raise NotConvergedError(UNFINISHED + _names(written))
            return result
        except PmldesignError as error:
            complain(f"{error.opening}: {printable(str(error))}")
            ctx.exit(error.exit_code)
        except MemoryError:
            complain("error: this does not fit into memory; take a smaller workload")
            ctx.exit(1)
        except NoArgsIsHelpError as error:  # of a group within this one
            _show_help(error, ctx)
        except click.UsageError as error:
            _in_one_line(error, ctx)
        except (click.exceptions.Exit, click.Abort, OSError):
            raise
        except (KeyboardInterrupt, Exception):  # libraries turn Ctrl-C into errors of their own
            if not interrupted():
                raise
            unfinished = _State.shown or written
            complain(f"error: {UNFINISHED + _names(written) if unfinished else INTERRUPTED}")
            ctx.exit(STOPPED if unfinished else 1)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except NoArgsIsHelpError as error:
            _show_help(error, ctx)
        except click.UsageError as error:
            _in_one_line(error, ctx)


def _show_help(error: NoArgsIsHelpError, ctx: click.Context) -> NoReturn:
    """The help of a group that was called without a command, which click has wrapped."""
    to_errors(error.format_message() + "\n")
    ctx.exit(2)


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


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=(
        "Exit codes: 0 success, 1 error without a result, 2 wrong argument or missing extra,"
        " 3 stopped early by a limit, Ctrl-C or a closed output (results shown or written hold),"
        " 4 vacuous guarantee, 5 infeasible request, 6 file or output that cannot be read or"
        " written, 7 false claim in a file, 8 claim that was not checked."
    ),
)
@click.version_option(package_name="pmldesign", message="%(package)s %(version)s")
def main() -> None:
    """Private mechanisms for linear queries by optimization, with certified bounds.

    Try: pmldesign demo, or pmldesign optimize prefix:64 --epsilon 1
    """
