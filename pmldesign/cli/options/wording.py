"""Messages of the library in the words of the command line.

A message of the library names an argument between backquotes, `neighbours` or `noise='laplace'`, or
begins with its name ("rel_gap must be positive"). Here these become the options and arguments of
the command that runs: --neighbours, --noise laplace, --rel-gap.
"""

from __future__ import annotations

import re

import click

SECTIONS: dict[str, tuple[str, ...]] = {
    "Guarantee": (
        "epsilon", "delta", "alpha", "guarantee", "neighbours", "known", "at_alpha", "share",
        "report_delta", "failure_probability",
    ),
    "Accuracy": ("std", "half_width"),
    "Noise": ("noise", "scale"),
    "Workload": (
        "p", "schema", "workload", "weights", "participation", "strategy", "strategies", "prior",
    ),
    "Strategy": ("buffers", "streaming", "start"),
    "Data": ("counted", "dialect", "table_name", "private", "columns", "series", "gaps"),
    "Ledger": ("ledger", "population", "confirm_same_population", "budget", "plan"),
    "State": ("state", "commit", "position", "replay"),
    "Estimates": ("level", "simultaneous", "nonnegative", "integers", "nearest"),
    "Effort": (
        "effort", "time_limit", "rel_gap", "method", "solver", "seed", "jobs", "backend",
        "address", "restart",
    ),
    "Output": (
        "output", "measurements", "certificate", "curve", "points", "alpha_curve", "table", "plot",
        "report", "json", "help",
    ),
}  # fmt: skip
"""Names of fields by section, in the order in which help shows them."""
SECTION_OF = {name: section for section, names in SECTIONS.items() for name in names}
NAMED = re.compile(r"`(?P<name>\w+)(?:=(?P<quote>['\"]?)(?P<value>[^`]*?)(?P=quote))?`")
FIRST = re.compile(r"(?P<name>\w+)(?= (?:must|has|have|is|are)\b)")
OTHER_NAMES = {
    "budget_gap": ("rel_gap",),
    "delta": ("failure_probability", "report_delta"),
    "targets": ("std", "half_width"),
}
"""Options of arguments that a command calls otherwise."""


def in_options(message: str) -> str:
    """The message with options instead of arguments, for the command that runs."""
    context = click.get_current_context(silent=True)
    if context is None:
        return message
    parameters = {p.name: p for p in context.command.params if p.name is not None}

    def given(name: str) -> str | None:
        """The name of the parameter that the user gave for an argument."""
        for own in (name, *OTHER_NAMES.get(name, ())):
            if context.get_parameter_source(own) is click.core.ParameterSource.COMMANDLINE:
                return own
        return None

    def spelled(name: str) -> str | None:
        names = (name, *OTHER_NAMES.get(name, ()))
        name = given(name) or next((own for own in names if own in parameters), name)
        if isinstance(own := parameters.get(name), click.Argument):
            return own.human_readable_name
        if own is not None:
            return max(own.opts, key=len)
        return f"--{name.replace('_', '-')}" if name in SECTION_OF else None

    def replaced(found: re.Match[str]) -> str:
        option, value = spelled(found["name"]), found["value"]
        if option is None:
            return found[0]
        return option if value in (None, "", "True") else f"{option} {value}"

    first = FIRST.match(message)
    if first is not None and given(first["name"]):
        message = (spelled(first["name"]) or first["name"]) + message[first.end() :]
    return NAMED.sub(replaced, message)
