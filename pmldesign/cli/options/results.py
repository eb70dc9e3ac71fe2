"""Options that name what is written beside what is printed: JSON, pictures, reports, tables.

A file that cannot be written is refused where its option is read, before any work.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmldesign.cli.documents.document import Document, Section, Table
from pmldesign.cli.options.fields import option
from pmldesign.cli.terminal.show import print_json, print_sections
from pmldesign.errors import NotConvergedError
from pmldesign.files import atomic_write, check_writable


def _drawn(*what: Any) -> Callable[[Path], None]:
    def check(path: Path) -> None:
        from pmldesign.plots.pictures import check_plot_path

        check_plot_path(path, *what)

    return check


def ends(what: str, ending: str) -> Callable[[Path], None]:
    """What refuses a file that does not end so, or cannot be written."""
    return lambda path: check_writable(path, what, ending)


def drawing(shown: str) -> dict[str, str]:
    """Of --plot: the help where it draws this."""
    return {"help": f"Draw {shown}: .png, .pdf or .svg (the plot extra)."}


def strategy_output() -> Any:
    """-o of a strategy."""
    check = ends("a strategy file", ".npz")
    return option("Write the strategy: .npz.", "-o", "--output", check=check)


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """How answers are given: their intervals, and what is done to them afterwards."""

    level: float | None = option("Of the intervals, in (0, 1).", default=0.95)
    simultaneous: bool = option("All intervals hold together.")
    nonnegative: bool = option("No negative counts, all tables consistent.")
    integers: bool = option("Whole counts, all tables consistent.")
    quantiles: tuple[str, ...] = option(
        "Of an attribute, such as age=0.25,0.5,0.75; in FILE.quantiles.csv.",
        multiple=True,
        type=str,
        metavar="NAME=Q,...",
    )

    @property
    def told(self) -> dict[str, Any]:
        """The same as arguments of a release.

        Raises:
            InvalidInputError: quantiles that are none.
        """
        from pmldesign.release.nonlinear import parse_quantiles

        return {**vars(self), "quantiles": dict(map(parse_quantiles, self.quantiles))}


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where a document goes."""

    plot: Path | None = option("", check=_drawn())
    report: Path | None = option(
        "Write a page to keep, send or print: .html (the plot extra).",
        check=_drawn("report", [".html"]),
    )
    csv: Path | None = option("Write the table: .csv.", check=ends("this table", ".csv"))
    latex: Path | None = option(
        "Write the table for LaTeX: .tex.", check=ends("this table", ".tex")
    )
    json: bool = option("Print JSON instead of a table.")

    def begin(self, section: Callable[[], Section]) -> None:
        """Print a beginning of a document, unless it is printed as JSON."""
        if not self.json:
            print_sections([section()])

    def deliver(self, document: Document, *, begun: bool = False) -> None:
        """Print a document, and write the files that are asked for.

        Args:
            document: what was found.
            begun: whether something of it was printed before its summary.

        Raises:
            FileError: a file cannot be written.
            NotConvergedError: Ctrl-C after the document was printed.
            PmldesignError: a result is not a number.
        """
        if document.table is not None:
            self._write(document.table)
        if self.json:
            print_json(document.data)
        else:
            print_sections(document.summary, begun=begun)
        try:
            self._draw(document)
        except KeyboardInterrupt:
            raise NotConvergedError("interrupted: what is shown holds, but was not drawn") from None

    def _draw(self, document: Document) -> None:
        """The picture and the page."""
        if self.plot is not None and document.picture is not None:
            from pmldesign.plots import save

            save(document.picture(), self.plot)
        if self.report is not None and document.page is not None:
            from pmldesign.cli.documents.page import write_page

            write_page(self.report, document.title, document.page())

    def _write(self, table: Table) -> None:
        """The records with all digits, and what is shown."""
        if self.csv is not None:
            with atomic_write(self.csv, "w") as handle:
                columns = list(dict.fromkeys(name for record in table.records for name in record))
                writer = csv.DictWriter(handle, fieldnames=columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(table.records)
        if self.latex is not None:
            from pmldesign.workloads.display import latex_table

            with atomic_write(self.latex, "w") as handle:
                handle.write(latex_table(table.header, table.cells))
