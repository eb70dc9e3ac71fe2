"""The options that say how accurate answers are to be, for `pmldesign target`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pmldesign.cli.options.fields import given, option
from pmldesign.designs.targets.accuracy import Targets, as_targets, named_targets
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_prior
from pmldesign.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class AccuracyOptions:
    """A standard deviation or a half-width, for all queries or for each."""

    max_std: float | None = option("Largest standard deviation.", metavar="C")
    half_width: float | None = option("Or half-width of intervals at --level.", metavar="H")
    level: float = option(
        "Of these intervals; where it is given, --targets are half-widths.",
        default=0.95,
    )
    targets: Path | None = option("Or one number for each query: one number a line, .csv or .npy.")
    table_std: tuple[str, ...] = option(
        "Or for parts of WORKLOAD by name or number from 1, or queries by their labels; "
        "--max-std for the others.",
        multiple=True,
        type=str,
        metavar="NAME=C,...",
    )
    table_half_width: tuple[str, ...] = option(
        "Or half-widths, likewise; --half-width for the others.",
        multiple=True,
        type=str,
        metavar="NAME=H,...",
    )

    def of(self, queries: Workload, text: str) -> Targets:
        """What the options ask for.

        Args:
            queries: the workload.
            text: how it was written, whose parts have names.

        Raises:
            FileError: the file of targets cannot be read.
            InvalidInputError: none, or several that do not go together.
        """
        stds = self.max_std is not None or self.table_std
        halves = self.half_width is not None or self.table_half_width
        if stds and halves:
            raise InvalidInputError(
                "--max-std and --table-std are standard deviations, --half-width and "
                "--table-half-width half-widths; give one kind, not both"
            )
        if stds and given("level"):
            raise InvalidInputError("--level is of half-widths; take --half-width, not --max-std")
        number = self.half_width if halves else self.max_std
        tables = self.table_half_width or self.table_std
        level = self.level if halves or given("level") else None
        if self.targets is not None:
            if stds or halves:
                raise InvalidInputError(
                    "--targets has a number for each query; leave the others out"
                )
            return as_targets(
                Targets(read_prior(self.targets, name="targets"), level=level), queries
            )
        if tables:
            named = named_targets(queries, _named(",".join(tables), text), number)
            return as_targets(replace(named, level=level), queries)
        if number is None:
            raise InvalidInputError(
                "say how accurate the answers are to be: --max-std 5, --half-width 10, --targets"
                " FILE, --table-std or --table-half-width"
            )
        return as_targets(Targets(number, level=level), queries)


def _named(text: str, workload: str) -> Mapping[str, float]:
    """Numbers by name: "A=20,B=5"; a name may have commas and signs of equality itself."""
    named: dict[str, float] = {}
    rest = ""
    for part in text.split(","):
        piece = f"{rest},{part}" if rest else part
        name, equals, number = piece.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            rest = piece
            continue
        if rest == "" and equals and name.strip() and _begins_part(piece, text, workload):
            rest = piece
            continue
        named[name.strip()] = value
        rest = ""
    if rest or "" in named or not named:
        raise InvalidInputError(
            f"targets of parts are written as NAME=20,NAME=5, got {text[:60]!r}; a part may be"
            " called by its number from 1"
        )
    return named


def _begins_part(piece: str, text: str, workload: str) -> bool:
    """Whether what looks like NAME=C is the beginning of a longer name of a part."""
    parts = [part.strip() for part in workload.split("+")]
    longer = [part for part in parts if part.startswith(piece.strip()) and f"{part}=" in text]
    return bool(longer) and piece.rpartition("=")[0].strip() not in parts
