"""The command line: a command reads its options, makes one library call, and says what it found.

Options are the fields of a class (`options.fields`); what was found is a document, which is shown
as text, as JSON, or as a page (`documents.document`).

Commands are imported when they are called, so that `pmldesign --help` does not load numpy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from pmldesign.cli.terminal import process
from pmldesign.errors import PmldesignError, printable
from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "demo": "DEMONSTRATIONS MEANS",
        "documents.comparison": "usual_rows",
        "documents.document": "Document Section Table",
        "documents.parts": "promised",
        "options.fields": "argument as_command given group option",
        "options.results": "Outputs",
        "terminal.process": "complain signals wrapped",
        "terminal.show": "facts note print_json progress table",
    },
)

COMMANDS = {
    "demo": "Show a worked example: a table of people, running sums, or a norm.",
    "workload": "Show a workload, or write it to a file.",
    "optimize": "Design a strategy for a workload, and its noise.",
    "sql": "Print a query that counts people in their database.",
    "stream": "Release running sums on line, a number at a time.",
    "calibrate": "Find the noise that a strategy needs for a guarantee.",
    "release": "Answer a workload on data: a table with exact noise and intervals.",
    "ask": "Answer further questions from the measurements of releases.",
    "ledger": "Show what releases about some people have cost, and what is left.",
    "plan": "Show what several releases cost together whose noise is fixed in advance.",
    "schema": "Draft the schema of a file of people.",
    "target": "Find the least budget at which every query is accurate enough.",
    "compare": "Compare strategies on a workload.",
    "sweep": "Compare strategies over a whole study, here or on a cluster.",
    "bounds": "Show how close to the best possible an error is.",
    "leakage": "Show the pointwise maximal leakage of noise on a strategy.",
    "envelope": "Show the leakage envelope of a finite channel.",
    "verify": "Check every number that a file claims.",
}
PEOPLE = {"ask", "ledger", "plan", "schema", "sql"}
"""Those that are in a room of their own."""


class _Commands(click.Group):
    """Finds a command in the module of its name; errors become one line and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command, whatever its streams are, and end as it did."""
        with process.signals():
            process.prepare_streams()
            try:
                return super().main(*arguments, **options)
            except OSError as error:
                return process.refuse_output(error)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        with process.importing():
            place = f"people.{cmd_name}" if cmd_name in PEOPLE else cmd_name
            command: click.Command = import_module(f"pmldesign.cli.{place}").command
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
        try:
            return super().invoke(ctx)
        except PmldesignError as error:
            process.complain(f"error: {printable(str(error))}")
            ctx.exit(error.exit_code)
        except MemoryError:
            process.complain("error: this does not fit into memory; take a smaller workload")
            ctx.exit(1)
        except click.UsageError as error:
            _in_one_line(error, ctx)
        except (click.exceptions.Exit, click.Abort, OSError):
            raise
        except (KeyboardInterrupt, Exception):
            if not process.interrupted():
                raise
            process.complain(f"error: {process.INTERRUPTED}")
            ctx.exit(1)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            process.complain(ctx.get_help())
            ctx.exit(2)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _in_one_line(error, ctx)


def _in_one_line(error: click.UsageError, ctx: click.Context) -> NoReturn:
    path = (error.ctx or ctx).command_path
    message = " ".join(error.format_message().rstrip(".").split()) + _hint(error)
    process.complain(f"error: {printable(message)}; see {path} --help")
    ctx.exit(error.exit_code)


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
        " extra that is missing, 3 stopped before the requested gap (what was found is shown and"
        " written), 4 the guarantee protects nobody, 5 no mechanism can do this, 6 a file or output"
        " cannot be read or written, 7 a claim of a file does not hold, 8 one was not"
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
