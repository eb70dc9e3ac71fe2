"""Options that name what is written beside what is printed: JSON, pictures, reports, tables.

A file that cannot be written is refused where its option is read, before any work.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pmldesign.cli.options.common import Decorator, file_option
from pmldesign.files import atomic_write, check_writable
from pmldesign.workloads.display import latex_table

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def _file(*names: str, check: Callable[[Path], None], text: str) -> Decorator:
    """An option whose file is checked when it is read."""

    def checked(_context: Any, _option: Any, path: Path | None) -> Path | None:
        if path is not None:
            check(path)
        return path

    return file_option(*names, callback=checked, help=text)


def _drawn(*what: Any) -> Callable[[Path], None]:
    def check(path: Path) -> None:
        from pmldesign.plots.files import check_plot_path

        check_plot_path(path, *what)

    return check


def _ends(what: str, ending: str) -> Callable[[Path], None]:
    return lambda path: check_writable(path, what, ending)


def plot_option(shown: str) -> Decorator:
    """--plot FILE of a picture that shows this."""
    return _file(
        "--plot", check=_drawn(), text=f"Draw {shown}: .png, .pdf or .svg (the plot extra)."
    )


strategy_option = _file(
    "-o", "--output", check=_ends("a strategy file", ".npz"), text="Write the strategy: .npz."
)
report_option = _file(
    "--report",
    check=_drawn("report", [".html"]),
    text="Write a page to keep, send or print: .html (the plot extra).",
)
table_options = [
    _file("--csv", "csv_path", check=_ends("this table", ".csv"), text="Write the table: .csv."),
    _file("--latex", check=_ends("this table", ".tex"), text="Write the table for LaTeX: .tex."),
]


def write_tables(
    csv_path: Path | None,
    latex: Path | None,
    records: Sequence[Mapping[str, Any]],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> None:
    """Write the files that --csv and --latex ask for.

    Args:
        csv_path: gets the records with all digits, or None.
        latex: gets what is shown, or None.
        records: the rows by column.
        header: of the table that is shown.
        rows: its cells, as texts.
    """
    if csv_path is not None:
        with atomic_write(csv_path, "w") as handle:
            columns = list(dict.fromkeys(name for record in records for name in record))
            writer = csv.DictWriter(handle, fieldnames=columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(records)
    if latex is not None:
        with atomic_write(latex, "w") as handle:
            handle.write(latex_table(header, rows))
