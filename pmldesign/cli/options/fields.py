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
the same kind whose options several commands share; they appear at the position of its field.

`Outputs` has the options for output other than the printed text: JSON, pictures, reports, tables. A
file that cannot be written is refused when its option is read, before any work.
"""

from __future__ import annotations

import csv
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, get_args, get_type_hints

import click

from pmldesign.arguments import as_number, as_numbers
from pmldesign.cli.documents.document import Document, Section, Table, print_json, print_sections
from pmldesign.cli.options.sections import SectionedCommand
from pmldesign.errors import FileError, InvalidInputError, require_extra
from pmldesign.files import atomic_write, check_writable

T = TypeVar("T")
Attributes = Mapping[str, Any]
WRITTEN = ("output", "plot", "report", "table", "measurements", "certificate")
"""Options of files that a command writes; all others are read, or changed."""
EXAMPLE = "\b\nExample:\n  "
"""What click does not wrap."""
TABLE_ENDINGS = (".csv", ".parquet", ".tex")


class _PlainDigits(click.ParamType):  # type: ignore[type-arg]
    """Refuses texts that Python alone reads as numbers."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The number."""
        if isinstance(value, str) and as_number(value) is None:
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return super().convert(value, param, ctx)


class _Number(_PlainDigits, click.types.FloatParamType):
    """A number."""


class _Whole(_PlainDigits, click.types.IntParamType):
    """An integer."""


class WholeRange(_PlainDigits, click.IntRange):
    """An integer in a range."""


TYPES: Mapping[Any, Any] = {float: _Number(), int: _Whole(), Path: click.Path(path_type=Path)}
"""What click reads fields of these types with; everything else is a text."""


def argument(kind: click.ParamType[Any] | None = None, **attributes: Any) -> Any:
    """A field that is an argument, with attributes of `click.Argument`."""
    return field(metadata={"argument": {"type": kind, **attributes}})


def option(text: str, *names: str, default: Any = None, **attributes: Any) -> Any:
    """A field that is an option.

    Args:
        text: its help.
        names: such as "-o", if they do not follow from the name of the field.
        default: its value if the option is not given.
        attributes: of `click.Option`; `check` is called with the given value.
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
            _require_apart(values)
            function(_asked(kind, values))

        parameters = [*_parameters(kind, {})]
        help_text = (inspect.getdoc(function) or "").replace("Example: ", EXAMPLE)
        return SectionedCommand(
            name, params=parameters, callback=call, help=help_text, **attributes
        )

    return decorate


def _require_apart(values: Mapping[str, Any]) -> None:
    """Refuse to write over a file that the command reads, or to write two into one.

    Raises:
        FileError: they are the same.
    """
    written = [values[name] for name in WRITTEN if isinstance(values.get(name), Path)]
    if not written:
        return
    taken = set()
    for name, value in values.items():
        for each in value if isinstance(value, tuple) else (value,):
            if name not in WRITTEN and isinstance(each, str | Path):
                taken |= {each, *str(each).split(",")}
    places = set(map(os.path.realpath, taken))
    for path in written:
        if os.path.realpath(path) in places:
            raise FileError(f"{str(path)!r} would be replaced; take another name for what is new")
        places.add(os.path.realpath(path))


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
        del attributes["default"]  # click takes a required option with a default for given
    else:
        attributes["show_default"] = True
    stated = attributes.get("type")
    attributes["type"] = TYPES.get(stated or kind, stated)
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
        InvalidInputError: a part of it is not a number.
    """
    found = as_numbers(text.split(","))
    if found is None:
        raise InvalidInputError(
            f"{name} must be numbers separated by commas, such as {example}; got {text!r}"
        )
    return found


def _drawn(*what: Any) -> Callable[[Path], None]:
    def check(path: Path) -> None:
        from pmldesign.plots.pictures import check_plot_path

        check_plot_path(path, *what)

    return check


def ends(what: str, *endings: str) -> Callable[[Path], None]:
    """A check that refuses a file with another ending, or one that cannot be written."""
    return lambda path: check_writable(path, what, *endings)


def drawing(shown: str) -> dict[str, str]:
    """The help of --plot for a command that draws this."""
    return {"help": f"File for a picture of {shown}: .png, .pdf or .svg (needs the plot extra)."}


def strategy_output() -> Any:
    """The option -o, for the file of a strategy."""
    check = ends("a strategy file", ".npz")
    return option("File for the strategy: .npz.", "-o", "--output", check=check)


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """The form of the answers: their intervals, and their post-processing."""

    level: float | None = option("Confidence level of the intervals, in (0, 1).", default=0.95)
    simultaneous: bool = option("Widen the intervals so that all of them hold together.")
    nonnegative: bool = option("Remove negative counts, with all tables consistent.")
    integers: bool = option("Round counts to integers, with all tables consistent.")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where a document goes."""

    plot: Path | None = option("", check=_drawn())
    table: Path | None = option(
        "File for the table: .csv or .parquet with all digits, or .tex for LaTeX.",
        check=ends("a table", *TABLE_ENDINGS),
    )
    json: bool = option("Print JSON instead of text.")

    def begin(self, section: Callable[[], Section]) -> None:
        """Print a beginning of a document, unless it is printed as JSON."""
        if not self.json:
            print_sections([section()])

    def deliver(self, document: Document, *, begun: bool = False) -> None:
        """Print a document, and write the files that are asked for.

        Args:
            document: the result.
            begun: whether something of it was printed before its summary.

        Raises:
            FileError: a file cannot be written.
            PmldesignError: a result is not a number.
        """
        if document.table is not None:
            self._write(document.table)
        if self.json:
            print_json(document.data)
        else:
            print_sections(document.summary, begun=begun)
        if self.plot is not None and document.picture is not None:
            from pmldesign.plots import save

            save(document.picture(), self.plot)

    def _write(self, table: Table) -> None:
        """The records with all digits, or the cells as they are shown for LaTeX."""
        if self.table is None:
            return
        ending = self.table.suffix.lower()
        if ending == ".parquet":
            with atomic_write(self.table, "wb") as handle:
                handle.write(_parquet(table.records))
            return
        with atomic_write(self.table, "w") as handle:
            if ending == ".tex":
                from pmldesign.workloads.display import latex_table

                handle.write(latex_table(table.header, table.cells))
                return
            columns = list(dict.fromkeys(name for record in table.records for name in record))
            writer = csv.DictWriter(handle, fieldnames=columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(table.records)


@dataclass(frozen=True, kw_only=True)
class ReportOutputs(Outputs):
    """Where a document goes that is also a page."""

    report: Path | None = option(
        "File for a page with the result: .html (needs the plot extra).",
        check=_drawn("report", [".html"]),
    )

    def deliver(self, document: Document, *, begun: bool = False) -> None:
        """As `Outputs.deliver`, and write the page."""
        super().deliver(document, begun=begun)
        if self.report is not None and document.page is not None:
            from pmldesign.cli.documents.page import write_page

            write_page(self.report, document.title, document.page())


def _parquet(records: Sequence[Mapping[str, Any]]) -> bytes:
    """Records as the bytes of a Parquet file, written by DuckDB.

    Raises:
        InvalidInputError: DuckDB is not installed.
    """
    require_extra("a .parquet table", "duckdb", "release", ", or write .csv")
    import duckdb

    with TemporaryDirectory() as folder:
        lines, written = Path(folder, "rows.json"), Path(folder, "rows.parquet")
        lines.write_text("".join(json.dumps(record) + "\n" for record in records))
        with duckdb.connect() as connection:
            connection.read_json(str(lines)).write_parquet(str(written))
        return written.read_bytes()
