"""The published table: a row for each query, with labels, estimate and interval.

Sums of published numbers are published numbers, to the last digit (`estimates`). The rounding
widens the intervals.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from pmldesign.errors import FileError, InvalidInputError, require_extra
from pmldesign.files.atomic import PathName, check_writable
from pmldesign_solvers.operators.operator import Array, Indices

FINE = 1e-4
"""The rounding moves an answer by at most half of this part of the smallest standard deviation."""
ROUNDED_DEVIATION = 1e-5
"""Of the largest standard deviation: less may be the rounding of one that is 0."""
EXACT = 2.0**52
"""Sums of whole numbers below are exact in float64, with a bit to spare."""
FORMATS = (".csv", ".parquet")
NUMBERS = ("estimate", "standard_deviation", "lower", "upper")
"""Columns beside the labels."""


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """The table that is published.

    Attributes:
        labels: for each attribute the label of every query; {"query": numbers} without a schema.
        estimate: shape (m,); NaN where it is missing.
        standard_deviation: of the noise, shape (m,).
        lower: ends of the intervals, shape (m,).
        upper: likewise.
        decimals: how many digits after the point estimates and intervals have, one number for all
            or shape (m,).
    """

    labels: dict[str, list[str]]
    estimate: Array
    standard_deviation: Array
    lower: Array
    upper: Array
    decimals: int | Indices

    def columns(self) -> dict[str, list[Any]]:
        """Names and columns, numbers as they are printed."""
        numbers = {
            name: [float(text) if text else None for text in texts]
            for name, texts in self._printed().items()
        }
        return {**self.labels, **numbers}

    def without_noisy(self, relative_error: float) -> ReleasedTable:
        """The table without estimates below their standard deviation over `relative_error`.

        It is a function of what is published. Intervals stay: left out where the noise made an
        estimate small, the others would cover less often than they say.
        """
        noisy = ~(self.standard_deviation <= relative_error * np.abs(self.estimate))
        return replace(self, estimate=np.where(noisy, np.nan, self.estimate))

    def write_csv(self, handle: IO[bytes]) -> None:
        """Write the table as UTF-8 text with a header."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        columns = self.labels | self._printed()
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        handle.write(text.getvalue().encode())

    def write_parquet(self, handle: IO[bytes]) -> None:
        """Write the table as Parquet."""
        self.to_frame().write_parquet(handle)

    def to_frame(self) -> Any:
        """The table as a data frame of polars."""
        require_extra("a data frame", "polars", "release")
        import polars

        return polars.DataFrame(self.columns())

    def _printed(self) -> dict[str, list[str]]:
        """The columns of numbers."""
        return {
            "estimate": self._texts(self.estimate),
            "standard_deviation": [
                "" if math.isnan(value) else f"{value:.6g}" for value in self.standard_deviation
            ],
            "lower": self._texts(self.lower),
            "upper": self._texts(self.upper),
        }

    def _texts(self, values: Array) -> list[str]:
        digits = np.broadcast_to(self.decimals, values.shape).tolist()
        texts = (f"{value:.{d}f}" for value, d in zip((values + 0.0).tolist(), digits, strict=True))
        return [_plain(text) for text in texts]


def _plain(text: str) -> str:
    """A number without a sign before zero; nothing for NaN."""
    if text == "nan":
        return ""
    return text[1:] if float(text) == 0 and text[0] == "-" else text


def table_bytes(path: PathName, table: ReleasedTable) -> bytes:
    """The table as the ending of a path says."""
    content = io.BytesIO()
    if Path(path).suffix.lower() == ".csv":
        table.write_csv(content)
    else:
        table.write_parquet(content)
    return content.getvalue()


def check_table_path(path: PathName) -> None:
    """Refuse a path that no table can have.

    Raises:
        FileError: another extension, or the folder takes no files.
        InvalidInputError: polars is missing for .parquet.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise FileError(f"cannot write {str(path)!r}: a table ends in {' or '.join(FORMATS)}")
    if Path(path).suffix.lower() == ".parquet":
        require_extra("a .parquet file", "polars", "release", ", or write .csv")
    check_writable(path)


def decimals_for(cells: int, deviations: Array, size: float) -> int:
    """Digits after the point: fine beside the noise, with sums that are exact.

    Args:
        cells: that a query may sum.
        deviations: standard deviations of the answers.
        size: of the numbers that are summed, together.

    Raises:
        InvalidInputError: the numbers are too large.
    """
    positive = deviations[deviations > ROUNDED_DEVIATION * deviations.max(initial=0.0)]
    least = float(positive.min()) if positive.size else 1.0
    wanted = math.ceil(math.log10(cells / (FINE * least)))
    allowed = math.floor(math.log10(EXACT / max(size, 1.0)))
    if allowed < 0:
        raise InvalidInputError("the counts are too large to be summed exactly")
    return max(0, min(wanted, allowed, 12))
