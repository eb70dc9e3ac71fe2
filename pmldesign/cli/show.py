"""How commands print: tables, facts, JSON, and progress on stderr."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from pmldesign_solvers.l1_solution import L1Step
from pmldesign_solvers.solution import Step

WIDTH = 500
"""Tables are never cut to fit: a terminal that is too narrow wraps them, no digit is lost."""
QUIET_SECONDS = 5.0
"""Where stderr is no terminal, a line of progress at most this often."""


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    terminal = sys.stdout.isatty()
    shown = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, header in enumerate(headers):
        shown.add_column(header, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=WIDTH)
    with console.capture() as capture:
        console.print(shown)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Print what is known, one fact a line."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(f"{name:<{width}}  {value}")


def number(value: float) -> str:
    """Six significant digits."""
    return f"{value:.6g}"


def print_json(value: Any) -> None:
    """Print JSON; infinity, which JSON does not have, is the text "inf"."""
    click.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value


@contextmanager
def progress() -> Iterator[Callable[[Step | L1Step | str], None]]:
    """A callback that shows steps of a solver, or lines of text, on stderr."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield lambda step: status.update(_line(step))
        return
    last = time.perf_counter()

    def report(step: Step | L1Step | str) -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last >= QUIET_SECONDS:
            last = now
            click.echo(_line(step), err=True)

    yield report


def _line(step: Step | L1Step | str) -> str:
    if isinstance(step, str):
        return step
    if isinstance(step, L1Step):
        return f"start {step.number}: error {step.error:.8g}, {step.seconds:.1f} s"
    return (
        f"step {step.number}: between {step.lower:.8g} and {step.upper:.8g},"
        f" gap {step.gap:.1e}, {step.seconds:.1f} s"
    )
