"""The sections of a command's help: which option belongs to which, in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

SECTIONS: dict[str, tuple[str, ...]] = {
    "Guarantee": (
        "epsilon", "delta", "alpha", "guarantee", "neighbours", "known", "at_alpha", "share",
    ),
    "Accuracy": ("std", "half_width"),
    "Noise": ("noise", "scale", "own_grid"),
    "Workload": (
        "p", "schema", "workload", "weights", "participation", "strategy", "strategies", "prior",
    ),
    "Strategy": ("buffers", "streaming", "start"),
    "Data": ("sql", "counted", "dialect", "table_name", "private", "columns", "series", "gaps"),
    "Ledger": ("ledger", "people", "same_people", "budget", "plan"),
    "State": ("state", "commit", "position", "replay"),
    "Estimates": ("level", "simultaneous", "nonnegative", "integers", "nearest"),
    "Effort": (
        "effort", "time_limit", "rel_gap", "max_steps", "method", "solver", "seed",
        "jobs", "backend", "address", "restart", "points",
    ),
    "Output": (
        "output", "measurements", "certificate", "curve", "alpha_curve", "table", "plot", "report",
        "registry", "json", "help",
    ),
}  # fmt: skip
"""Names of fields by section, in the order in which help shows them."""
SECTION_OF = {name: section for section, names in SECTIONS.items() for name in names}
FEW = 6
"""Options up to which a command needs no sections."""


class SectionedCommand(click.Command):
    """A command whose help shows its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        for section, parameters in by_section(self.get_params(ctx)):
            records = [parameter.get_help_record(ctx) for parameter in parameters]
            shown = [record for record in records if record is not None]
            if shown:
                with formatter.section(section):
                    formatter.write_dl(shown)


def by_section(
    parameters: Sequence[click.Parameter],
) -> Iterator[tuple[str, list[click.Parameter]]]:
    """The options of a command by section, in the order of SECTIONS."""
    options = [each for each in parameters if isinstance(each, click.Option)]
    if len(options) <= FEW:
        yield "Options", [*options]
        return
    for section, names in SECTIONS.items():
        members = [each for name in names for each in options if each.name == name]
        if members:
            yield section, [*members]
