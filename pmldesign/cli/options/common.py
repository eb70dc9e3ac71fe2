"""What the options of commands have in common: how they are put on, and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from pmldesign.designs.options import DesignOptions
from pmldesign.errors import InvalidInputError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def file_option(*names: str, help: str, **more: Any) -> Decorator:
    """An option that names a file."""
    return click.option(*names, type=click.Path(path_type=Path), metavar="FILE", help=help, **more)


def search_time_option(seconds: float, text: str) -> Decorator:
    """--search-time SECONDS."""
    return click.option(
        "--search-time",
        type=float,
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )


def noise_option(text: str) -> Decorator:
    """--noise, which says what is taken by default."""
    return click.option(
        "--noise",
        type=click.Choice(["auto", "gaussian", "laplace"]),
        default="auto",
        show_default=True,
        help=f"auto takes the noise {text}.",
    )


gap_options: list[Decorator] = [
    click.option(
        "--rel-gap",
        type=float,
        default=1e-6,
        show_default=True,
        metavar="GAP",
        help="Stop when upper / lower - 1 is at most this.",
    ),
    click.option(
        "--time-limit", type=float, metavar="SECONDS", help="Stop after this time (each design)."
    ),
]


def add_options(options: list[Decorator]) -> Decorator:
    """One decorator for several options, in the order of the help."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def given(option: str) -> bool:
    """Whether the user gave an option (by the name of its argument), which may have a default."""
    source = click.get_current_context().get_parameter_source(option)
    return source not in (None, click.core.ParameterSource.DEFAULT)


def design_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a design out of the arguments of a command; the rest are a guarantee's.

    The relation of neighbours is left there as well, which a guarantee asks for itself.
    """
    names = {field.name for field in fields(DesignOptions)} & set(arguments)
    taken = {name: arguments.pop(name) for name in names - {"neighbours"}}
    return {"neighbours": arguments["neighbours"] or "add-remove"} | taken


def numbers(option: str, text: str, *, example: str) -> list[float]:
    """Numbers separated by commas.

    Raises:
        InvalidInputError: something in it is no number.
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(
            f"{option} must be numbers separated by commas, such as {example}; got {text!r}"
        ) from None
