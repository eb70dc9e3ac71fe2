"""Sections of help: which option belongs to which, in one table; and groups of commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from pmldesign.cli.options.wording import SECTIONS, in_options
from pmldesign.errors import PmldesignError


class SectionedCommand(click.Command):
    """A command whose help shows its options by section, and whose errors name its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, whose values may be refused."""
        with _errors_name_options(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _errors_name_options(ctx):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        for section, parameters in by_section(self.get_params(ctx)):
            records = [parameter.get_help_record(ctx) for parameter in parameters]
            shown = [record for record in records if record is not None]
            if shown:
                with formatter.section(section):
                    formatter.write_dl(shown)


@contextmanager
def _errors_name_options(context: click.Context) -> Iterator[None]:
    try:
        yield
    except PmldesignError as error:
        with context.scope(cleanup=False):
            error.args = (in_options(str(error)),)
        raise


class CommandGroup(click.Group):
    """A group whose help shows its commands in the order in which they are given."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of the commands."""
        return [*self.commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the first sentence of every command."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, (each.help or "").partition("\n")[0])
                    for name, each in self.commands.items()
                ]
            )


def by_section(
    parameters: Sequence[click.Parameter],
) -> Iterator[tuple[str, list[click.Parameter]]]:
    """The options of a command by section, in the order of SECTIONS."""
    options = [each for each in parameters if isinstance(each, click.Option)]
    for section, names in SECTIONS.items():
        members = [each for name in names for each in options if each.name == name]
        if members:
            yield section, [*members]
