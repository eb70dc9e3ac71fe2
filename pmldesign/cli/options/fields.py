"""The options of a command as a class: a field is an option, with its type, default and help.

    @dataclass(frozen=True, kw_only=True)
    class Asked:
        workload: str = argument(WorkloadName())
        rel_gap: float = option("Stop when upper / lower - 1 is at most this.", default=1e-6)
        outputs: Outputs = group(plot=None)

    @as_command("optimize", Asked)
    def command(asked: Asked) -> None:
        (the help of the command)

The field `rel_gap` is the option --rel-gap. A bool is a flag, a Path a file. A group is a class of
the same kind whose options several commands share; they stand where it stands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import click

from pmldesign.errors import InvalidInputError

T = TypeVar("T")
Attributes = Mapping[str, Any]
TYPES: Mapping[Any, Any] = {
    float: click.FLOAT,
    int: click.INT,
    Path: click.Path(path_type=Path),
}
"""What click reads fields of these types with; everything else is a text."""


def argument(kind: click.ParamType[Any] | None = None, **attributes: Any) -> Any:
    """A field that is an argument, with attributes of `click.Argument`."""
    return field(metadata={"argument": {"type": kind, **attributes}})


def option(text: str, *names: str, default: Any = None, **attributes: Any) -> Any:
    """A field that is an option.

    Args:
        text: its help.
        names: such as "-o", where the name of the field does not say it.
        default: its value where it is not given.
        attributes: of `click.Option`; `check` is called with the value that is given.
    """
    stated = {"names": names, "help": text, "default": default, **attributes}
    return field(default=default, metadata={"option": stated})


def group(**changes: Attributes | None) -> Any:
    """A field that is a class of options.

    Args:
        changes: of the attributes of its options by field, `more` to be added to the help; an
            option that is None is left out, and has its default.
    """
    return field(metadata={"changes": changes})


def as_command(
    name: str, kind: type[T], **attributes: Any
) -> Callable[[Callable[[T], None]], click.Command]:
    """Make a command of a function of its options; its docstring is the help."""

    def decorate(function: Callable[[T], None]) -> click.Command:
        def call(**values: Any) -> None:
            function(_asked(kind, values))

        parameters = [*_parameters(kind, {})]
        help_text = inspect.getdoc(function)
        return click.Command(name, params=parameters, callback=call, help=help_text, **attributes)

    return decorate


def _parameters(kind: type, changes: Mapping[str, Attributes | None]) -> Iterator[click.Parameter]:
    hints = get_type_hints(kind)
    for entry in fields(kind):
        change = changes.get(entry.name, {})
        if change is None:
            continue
        if is_dataclass(hints[entry.name]):
            yield from _parameters(hints[entry.name], entry.metadata["changes"])
        elif "argument" in entry.metadata:
            yield click.Argument([entry.name], **entry.metadata["argument"])
        else:
            yield _option(entry.name, hints[entry.name], {**entry.metadata["option"], **change})


def _option(name: str, hint: Any, attributes: dict[str, Any]) -> click.Option:
    (kind, *_) = get_args(hint) or (hint,)
    names, check = attributes.pop("names"), attributes.pop("check", None)
    attributes["help"] += attributes.pop("more", "")
    if check is not None:
        attributes["callback"] = lambda _context, _option, value: _checked(check, value)
    if kind is bool:
        attributes |= {"is_flag": True, "default": False if hint is bool else None}
    elif attributes["default"] is None:
        del attributes["default"]  # with which click takes a required option for given
    else:
        attributes["show_default"] = True
    attributes.setdefault("type", TYPES.get(kind))
    if kind is Path:
        attributes.setdefault("metavar", "FILE")
    return click.Option([*(names or [f"--{name.replace('_', '-')}"]), name], **attributes)


def _checked(check: Callable[[T], None], value: T | None) -> T | None:
    if value is not None:
        check(value)
    return value


def _asked(kind: type[T], values: Mapping[str, Any]) -> T:
    """The options, those of groups in theirs."""
    hints = get_type_hints(kind)
    own: dict[str, Any] = {}
    for entry in fields(kind):  # type: ignore[arg-type]
        if is_dataclass(hint := hints[entry.name]):
            own[entry.name] = _asked(hint, values)  # type: ignore[arg-type]
        elif entry.name in values:
            own[entry.name] = values[entry.name]
    return kind(**own)


def given(name: str) -> bool:
    """Whether the user gave an option (by the name of its field), which may have a default."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, click.core.ParameterSource.DEFAULT)


def numbers(name: str, text: str, *, example: str) -> list[float]:
    """Numbers separated by commas.

    Raises:
        InvalidInputError: something in it is no number.
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(
            f"{name} must be numbers separated by commas, such as {example}; got {text!r}"
        ) from None
