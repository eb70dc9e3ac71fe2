"""The command line: one file a command, each parses, makes one library call and shows the result.

Commands are imported when they are called, so that `pmldesign --help` does not load numpy.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import NoReturn

import click

from pmldesign.errors import PmldesignError

COMMANDS = {
    "workload": "Show a workload, or write it to a file.",
    "optimize": "Design the optimal strategy for a workload.",
    "calibrate": "Find the noise that a strategy needs for a guarantee.",
    "compare": "Compare strategies on a workload.",
    "bounds": "Show how close to the best possible an error is.",
    "leakage": "Show the pointwise maximal leakage of noise on a strategy.",
    "envelope": "Show the leakage envelope of a finite channel.",
}


class _Commands(click.Group):
    """Finds a command in the module of its name; errors become one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"pmldesign.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PmldesignError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)
        except MemoryError:
            click.echo("error: this does not fit into memory; take a smaller workload", err=True)
            ctx.exit(1)
        except click.UsageError as error:
            _in_one_line(error, ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _in_one_line(error, ctx)


def _in_one_line(error: click.UsageError, ctx: click.Context) -> NoReturn:
    path = (error.ctx or ctx).command_path
    message = " ".join(error.format_message().rstrip(".").split())
    click.echo(f"error: {message}; see {path} --help", err=True)
    ctx.exit(error.exit_code)


def _version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"pmldesign {metadata.version('pmldesign')}")
        ctx.exit()


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=(
        "Exit codes: 0 done, 1 stopped with nothing to show, 2 an argument is wrong, 3 stopped"
        " before the requested gap (what was found is shown and written), 4 the guarantee protects"
        " nobody, 5 no mechanism can do this, 6 a file cannot be read or written."
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
    """Optimal private mechanisms for linear query workloads, with a certificate."""
